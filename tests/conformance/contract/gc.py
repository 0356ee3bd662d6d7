"""GC: gradcheck and gradgradcheck: programs that show each id."""
