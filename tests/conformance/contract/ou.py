"""OU: outputs, aliases, in-place changes, outputs without derivative: programs that show each id."""
