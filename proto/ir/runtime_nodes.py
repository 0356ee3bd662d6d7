"""Nodes of the runtime: gradient sums, checks, digests, control dependencies, emits, spills and loads.

They have no user code. Backward passes and the client add the first ones and emits, plans add spills and loads.
"""

from __future__ import annotations

from typing import NamedTuple

from .node_base import ROLE_EMIT, ROLE_MEMORY, ROLE_SUM, Ids, distinct


@distinct
class PlainNode(NamedTuple):
    """The base of kinds that have no fields of their own."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    depth = 0


# ---- gradients, checks and order -----------------------------------------------------------------------------------


class GradSum(PlainNode):
    """The sum of two gradients, either of which may be undefined (H5, H19)."""

    __slots__ = ()
    role = ROLE_SUM
    fn = "sum"


class CheckDefined(PlainNode):
    """The identity on its input, which has to be defined: else the run fails, since the client recorded by earlier
    runs in which it was."""

    __slots__ = ()
    role = ROLE_SUM
    fn = "defined"


@distinct
class CheckNotNan(NamedTuple):
    """The identity on its input, in which no element may be NaN."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    message: str
    """The message of the error."""

    role = ROLE_SUM
    fn = "no nan"
    depth = 0


class ControlDependency(PlainNode):
    """The first input, after the others have been made."""

    __slots__ = ()
    role = ROLE_SUM
    fn = "after"


class Digest(PlainNode):
    """A hash of the bits of all its inputs."""

    __slots__ = ()
    role = ROLE_SUM
    fn = "digest"


@distinct
class CheckDigest(NamedTuple):
    """The first input, a context whose forward was rematerialised; the second has to be the digest of all others."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    function: str
    """The name of the Function, for the error."""

    role = ROLE_SUM
    fn = "agree"
    depth = 0


# ---- what leaves the graph -----------------------------------------------------------------------------------------


class Emit(PlainNode):
    """An emit of the client's own code to the session's handlers (H20): reads a constant (name and object, pickled
    without its tensors), then those tensors. It makes nothing."""

    __slots__ = ()
    role = ROLE_EMIT
    fn = "emit"


class Spill(PlainNode):
    """A write of a value to disk, on a worker with a memory limit; plans add it, recorders never do. It makes a
    placeholder for the value: an array without bytes."""

    __slots__ = ()
    role = ROLE_MEMORY
    fn = "spill"


class Load(PlainNode):
    """A read of a spilled value from disk: reads its placeholder, makes the value."""

    __slots__ = ()
    role = ROLE_MEMORY
    fn = "load"
