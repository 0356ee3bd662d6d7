"""VM: vmap: programs that show each id."""
