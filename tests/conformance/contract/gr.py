"""GR: saved-tensor hooks and graph utilities: programs that show each id."""
