"""The console: what `raygrad` and `python -m raygrad` do in a terminal.

- The *commands* (`commands`) are typer's; each is a few lines over a module beside it.
- A *script* (`script`) is a program that is run as `python` runs it, on a backend that the command line names.
- A *finding* (`doctor`) is one thing that was checked on this machine, with how to mend it.
- *Ray nodes* (`ray_nodes`) are a Ray cluster of several nodes on one machine.

Nothing imports this room but `raygrad.__main__`; typer is imported with it.
"""
