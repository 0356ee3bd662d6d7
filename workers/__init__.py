"""The workers room: the segment runner and the executors that carry out the scheduler's commands."""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `workers`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.workers`", name=__name__
    )
