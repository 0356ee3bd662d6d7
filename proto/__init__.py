"""The proto room: what crosses a process, as frozen data and as bytes.

- A *graph* is what one submission asks to be computed: nodes in topological order over numbered values, no arrays, no
  code (`graph`, of `ir`: a class per kind of node and of value); equal graphs have equal bytes and so one *structural
  hash* (`codec`, which alone knows positions).
- A *program* is the part of a graph that one worker runs as one unit, over slots; a *call* is one attempt at it, with
  the values that it reads; a *record* is what that attempt did (`program`).
- A *layout* is how an array lies in memory, as far as that travels: dense in some axis order, or a zero-stride
  expansion of such; it is part of the value, since a result's last bits depend on it (`layout`).
- *Packed values* are a msgpack header and raw *buffers* beside it, no large one copied; a *blob* is bytes that only the
  other end understands, and nothing here ever unpickles one (`values`, in halves `value_writer` and `value_reader`).
- A *message* is one of these nouns with its name and version, in a *frame*: prefix, header, buffers. A decoder gives a
  frame, NEED_DATA or `ProtocolError`, and what it gives was checked (`frames`, `messages`, `checks`).
"""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `proto`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.proto`", name=__name__
    )
