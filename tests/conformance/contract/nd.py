"""ND: nodes: programs that show each id."""
