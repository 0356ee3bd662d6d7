"""Call signature: what all calls of a user Function over arguments of equal specs have in common.

The Function recorder looks it up by key, and makes it once from the observed signature; it never changes afterwards.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.devices.serving import CPU
from raygrad.proto.ir.nodes import FunctionCall, device_in
from raygrad.proto.ir.specs import LIVE, STAYS, UNSEEN, ContextSpec

from ..recording.records import SpecEntry
from .call_costs import declares_cost
from .saved_policy import RECOMPUTE, WORKER, is_pinned

if TYPE_CHECKING:
    from raygrad.autograd.core.recorder import Pending
    from raygrad.autograd.functions.function import Function

    from .observed_signature import FunctionSignature
    from .vjps import VjpSignature


class CallSignature:
    """What applications of a Function share over arguments of equal specs, once it is known: looked up once, as a
    `Template` of a built-in op is."""

    __slots__ = (
        "bound",
        "call",
        "effects",
        "hinted",
        "key",
        "kind",
        "members",
        "name",
        "numbered",
        "outputs",
        "pinned",
        "placed",
        "plain",
        "plan",
        "pure",
        "repeats",
        "saved",
        "shapes",
        "signature",
        "unchecked",
        "unchecked_kind",
    )

    def __init__(
        self,
        cls: type[Function],
        signature: FunctionSignature,
        call: FunctionCall,
        key: Any,
        policy: str,
        inputs: Sequence[Pending | None],
        kinds: Iterator[int],
    ) -> None:
        self.plan = cls._traits
        """That of the class as it was: setting an attribute of the class makes another."""
        self.signature = signature
        self.key = key
        self.name = cls.__name__
        self.call = call._replace(expected=signature.expected)
        """Forward, as nodes run it."""
        self.unchecked = call
        """Forward, as a node runs it that shows what it did, and need not do what is expected."""
        self.kind, self.unchecked_kind = (0, 0) if device_in(call.settings) else (next(kinds), next(kinds))
        """See `NodeRecord.kind`. What the block of a device requests of a worker depends on other records."""
        self.placed = any(entry.device is not CPU for entry in signature.outputs) or any_on_device(inputs)
        """It reads or makes tensors of a device: then its context stays on its worker, as they do."""
        unseen = self.placed and signature.expected is None
        self.bound = LIVE if unseen or is_pinned(cls) else signature.bound or STAYS * (policy == WORKER)
        """Whether its context stays on its worker, and whether it can be taken apart there: 0, STAYS or LIVE."""
        self.pinned = bool(self.bound)
        self.outputs = (context_of(signature, self.bound), *signature.outputs)
        self.pure = call.pure or self.placed
        """Whether a second run of forward is not compared with the first; of a device it never is: that would move
        what it returned."""
        self.repeats = policy == RECOMPUTE and signature.holds > 0
        """Forward runs again before backward: its context holds more than references, and is not kept."""
        self.effects = bool(getattr(cls, "effects", False))
        self.hinted = declares_cost(cls)
        self.shapes: dict[Any, VjpSignature] = {}
        """How their backwards were recorded."""
        self.members: dict[str, Any] = {}
        """What their nodes have in common."""
        self.numbered: dict[tuple[int, ...], CallSignature] = {}
        """By the flags of arguments, the same for those that are other outputs than the first of their nodes."""
        flags = call.requires_grad
        tensors = [i for i, flag in enumerate(flags) if flag >= 0]
        self.saved = tensors if signature.saved_inputs is None else [i for i in signature.saved_inputs if flags[i] >= 0]
        """The arguments that may have been saved."""
        own = not any(signature.origins) and not signature.fixed and max(signature.twins, default=-1) < 0
        self.plain = own and all(entry.dtype is not None for entry in signature.outputs)
        """Every output is a new tensor."""

    def serves(self, cls: type[Function], signature: FunctionSignature | None) -> bool:
        """Tell whether it still holds."""
        return self.plan is cls._traits and self.signature is signature


def with_flags(known: CallSignature, flags: Sequence[int], kinds: Iterator[int]) -> CallSignature:
    """Return the same for arguments of other flags: output numbers do not change what a run shows (OU-29)."""
    key = tuple(flags)
    found = known.numbered.get(key)
    if found is None:
        found = known.numbered[key] = copy.copy(known)
        found.call = known.call._replace(requires_grad=key)
        found.unchecked = known.unchecked._replace(requires_grad=key)
        if known.kind:
            found.kind, found.unchecked_kind = next(kinds), next(kinds)
    return found


def context_of(signature: FunctionSignature, stays: int) -> SpecEntry:
    """Return what is known of the contexts of a Function."""
    size = UNSEEN if signature.expected is None else signature.holds
    on = () if size < 0 else signature.on
    return _context_entry(size, stays, on)


@functools.lru_cache(maxsize=1024)  # a bound on memory for Functions that save other bytes each time
def _context_entry(size: int, stays: int, on: tuple[tuple[str, int], ...]) -> SpecEntry:
    return SpecEntry(ContextSpec(size, stays, on))


def any_on_device(inputs: Sequence[Pending | None]) -> bool:
    """Tell whether arguments are on a device."""
    return any(value is not None and value.device is not CPU for value in inputs)
