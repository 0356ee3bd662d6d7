"""The proto room: graph IR and wire protocol, as frozen data and as bytes.

- A *graph* is the computation of one submission: nodes in topological order over numbered values, without arrays or
  code (`ir.graph`, with a class per kind of node and of value). Equal graphs have equal bytes, and so one *structural
  hash* (`codec`, which alone knows positions).
- A *program* is the part of a graph that one worker runs as one unit, over slots. A *call* is one attempt at it, with
  the values that it reads; a *record* is the outcome of that attempt (`ir.program`).
- A *layout* is the memory order of an array that crosses processes: dense in some axis order, or a zero-stride
  expansion of such an array. It is part of the value, since a result's last bits depend on it (`ir.array_layout`).
- *Packed values* are a msgpack header and raw *buffers* beside it, no large one copied. A *blob* is bytes that only the
  other end understands; nothing here ever unpickles one (`codec.values`, `value_writer` and `value_reader`).
- A *message* is a graph, program, call or record with its name and version, in a *frame*: prefix, header, buffers. A
  decoder returns a checked frame, NEED_DATA or `ProtocolError` (`codec.frames`, `messages`, `checks`).
"""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `proto`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.proto`", name=__name__
    )
