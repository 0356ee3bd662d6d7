"""BW: what backward may return and what is done with it: programs that show each id."""
