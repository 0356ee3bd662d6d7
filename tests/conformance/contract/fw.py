"""FW: forward mode: programs that show each id."""
