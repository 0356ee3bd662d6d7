"""EN: the engine, backward() and grad(): programs that show each id."""
