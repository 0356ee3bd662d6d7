"""The attributes with an underscore that other rooms may use: what each is, and what another room needs it for.

Data and nothing else, which `tests/architecture/test_private.py` compares with the sources. The underscores stay,
since users hold these objects and see what has none; an accessor for each would cost a call in paths that run for
every tensor. What is not listed is autograd's own: who needs more of it asks for a function or method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Attribute:
    """One attribute, or method, that other rooms may read."""

    name: str
    why: str
    """What it is, and what another room needs it for."""
    settable: bool = False
    """Whether they may set it, too."""


@dataclass(frozen=True)
class ClassInterface:
    """What other rooms may use of the instances of one class of this room, by its full name in it."""

    of: str
    attributes: tuple[Attribute, ...]


TENSOR: Final = ClassInterface(
    "tensor.tensor.Tensor",
    (
        Attribute("_made_in", "The transform in which it was made: sessions note it on outputs.", settable=True),
        Attribute(
            "_data", "The array, batched or pending value: sessions record it and workers put arrays in.", settable=True
        ),
        Attribute(
            "_requires_grad", "The flag, without the checks of `requires_grad`: read once per argument.", settable=True
        ),
        Attribute("_grad", "`.grad` without waiting and warning: workers lend it, optimisers read it.", settable=True),
        Attribute("_tangents", "The tangents of forward mode: a session keeps them beside arguments.", settable=True),
        Attribute("_grad_fn", "The node without the look at a view's: sessions read and set it.", settable=True),
        Attribute(
            "_view", "What a view shows of whose memory, None of others: workers look for outputs that are views."
        ),
        Attribute("_base", "Of a view, whose memory it is: workers report which argument an output is a view of."),
        Attribute("_counter", "The version counter: an output in a session shares its argument's.", settable=True),
        Attribute("_shares_memory", "Whether others may write its array: then a session sends it again."),
        Attribute("_snapshot", "What a session was sent of it, kept here so that it dies with it.", settable=True),
        Attribute("_frozen", "Whether writing to it is refused: workers freeze arrays of devices.", settable=True),
        Attribute("_hooks", "Its gradient hooks: a compiled step is guarded by them."),
        Attribute("_after_accumulation", "Its hooks after accumulation: a compiled step is guarded by them."),
        Attribute("_version", "PyTorch's name of the version: interop reads it of torch's tensors."),
    ),
)

NODE: Final = ClassInterface(
    "nodes.node.Node",
    (
        Attribute("_edges", "Where gradients go: sessions record backward passes along them.", settable=True),
        Attribute("_metas", "Shapes and dtypes of outputs: sessions say by them what a vjp gets.", settable=True),
        Attribute("_sequence", "The creation number: sessions number their nodes among the others.", settable=True),
        Attribute("_needed", "Which gradients a pass needs: sessions record these only."),
        Attribute("_pre_hooks", "Hooks that run before it: workers run those of a context.", settable=True),
        Attribute("_post_hooks", "Hooks that run after it: workers run those of a context.", settable=True),
        Attribute("_title", "Its name also where users set `name`: messages of sessions show it."),
    ),
)

OP_NODE: Final = ClassInterface(
    "nodes.op_node.OpNode",
    (
        Attribute("_origin", "The record of the op: what a session recorded for its vjp is kept there."),
        Attribute("_converts", "Whether operands were converted: then vjps of two nodes are not alike."),
    ),
)

FUNCTION_NODE: Final = ClassInterface(
    "functions.context.FunctionNode",
    (
        Attribute(
            "_function", "The Function that was applied: sessions ship it, interop reads its call.", settable=True
        ),
        Attribute("_input_places", "Devices of arguments: gradients are on these, too.", settable=True),
        Attribute("_barren", "Outputs without derivative: workers find them, sessions skip them.", settable=True),
        Attribute("_of_part", "It is not run where no gradient arrives: workers do as the engine.", settable=True),
        Attribute("_output_tangents", "Tangents of outputs: the node of a session gives them to what it unpacks."),
        Attribute("_path", "The path of the application: user code draws random numbers by it.", settable=True),
        Attribute("_output", "Makes a saved output a tensor: the node of a session derives from this class."),
        Attribute("_unpack", "Makes a saved slot a tensor: the node of a session derives from this class."),
        Attribute("_detached_message", "The message for a detached input: the node of a session raises it, too."),
    ),
)

FUNCTION: Final = ClassInterface(
    "functions.function.Function",
    (Attribute("_traits", "How it is called: sessions notice by it that a class was changed."),),
)

INTERFACE: Final = (TENSOR, NODE, OP_NODE, FUNCTION_NODE, FUNCTION)

READABLE: Final = frozenset([one.name for opened in INTERFACE for one in opened.attributes])

SETTABLE: Final = frozenset([one.name for opened in INTERFACE for one in opened.attributes if one.settable])
