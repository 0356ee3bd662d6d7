"""The autograd room: tensors, Functions, the dynamic engine and the registry of built-in ops."""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `autograd`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.autograd`", name=__name__
    )
