"""FT: function transforms: programs that show each id."""
