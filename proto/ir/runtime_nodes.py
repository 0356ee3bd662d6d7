"""Nodes of the runtime: gradient sums, checks, digests, control dependencies, emits, spills and loads.

They have no user code. Backward passes and the client add the first ones and emits, plans add spills and loads.
"""

from __future__ import annotations

from typing import NamedTuple

from .node_base import ROLE_EMIT, ROLE_MEMORY, ROLE_SUM, Ids, distinct

# ---- gradients, checks and order -----------------------------------------------------------------------------------


@distinct
class GradSum(NamedTuple):
    """The sum of two gradients, either of which may be undefined (H5, H19)."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "sum"
    depth = 0


@distinct
class CheckDefined(NamedTuple):
    """The identity on its input, which has to be defined: else the run fails, since the client recorded by earlier
    runs in which it was."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "defined"
    depth = 0


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


@distinct
class ControlDependency(NamedTuple):
    """The first input, after the others have been made."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "after"
    depth = 0


@distinct
class Digest(NamedTuple):
    """A hash of the bits of all its inputs."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "digest"
    depth = 0


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


@distinct
class Emit(NamedTuple):
    """An emit of the client's own code to the session's handlers (H20): reads a constant (name and object, pickled
    without its tensors), then those tensors. It makes nothing."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_EMIT
    fn = "emit"
    depth = 0


@distinct
class Spill(NamedTuple):
    """A write of a value to disk, on a worker with a memory limit; plans add it, recorders never do. It makes a
    placeholder for the value: an array without bytes."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_MEMORY
    fn = "spill"
    depth = 0


@distinct
class Load(NamedTuple):
    """A read of a spilled value from disk: reads its placeholder, makes the value."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_MEMORY
    fn = "load"
    depth = 0
