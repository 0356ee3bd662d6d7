"""DR: sessions and workers: programs that show each id."""
