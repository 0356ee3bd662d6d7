"""HK: tensor hooks and the order of hooks: programs that show each id."""
