"""The proto room: the graph IR, values and messages as msgpack with out-of-band buffers."""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `proto`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.proto`", name=__name__
    )
