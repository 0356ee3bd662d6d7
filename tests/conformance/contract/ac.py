"""AC: the registry of derivatives: programs that show each id."""
