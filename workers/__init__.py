"""The workers room: the interpreter of segments, the worker processes, and the executors that reach them."""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `workers`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.workers`", name=__name__
    )
