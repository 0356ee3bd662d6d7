"""CX: the context object: programs that show each id."""
