"""FN: defining and calling a Function: programs that show each id."""
