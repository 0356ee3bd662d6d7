"""`python -m raygrad`: the same as the command `raygrad`."""

from __future__ import annotations

from raygrad.console.commands import main

if __name__ == "__main__":
    main()
