"""The scheduler room: the planner and the state machine. Events go in, commands come out."""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `scheduler`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.scheduler`", name=__name__
    )
