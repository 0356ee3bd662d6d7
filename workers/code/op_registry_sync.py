"""Sync of the op registry: kernels and derivatives that users registered for built-in ops, sent with code (AC-15).

A worker runs code under exactly the registrations of the process that sent it, whatever it was sent before or after.
(An op of the user's own travels with its application; see `autograd.derived.custom_op`.)"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Final

from raygrad.autograd.registry.registry import UserKernel, customised, get_op

from .fingerprint import digest
from .pickling import pickle_value
from .shipping import Shipped
from .unpickling import unpickle_value

_PROCESS: Final = uuid.uuid4().hex

_packed: tuple[Any, bytes] = ((), b"")
"""The latest registrations by name and version, and their packed form."""

_used: bytes = b""
"""The packed registrations that this process, as a worker, uses."""


def pack_registrations() -> bytes:
    """Return the kernels and derivatives that users of this process registered, for `use_registrations`; empty if none.

    Raises:
        NotShippable: a kernel or derivative cannot be pickled; names what it captures.
    """
    global _packed
    ops = customised()
    if not ops:
        return b""
    state = tuple([(op.name, op.version) for op in ops])
    if _packed[0] != state:
        _packed = (state, pickle_value((_PROCESS, [(op.name, *op.user_entries()) for op in ops])))
    return _packed[1]


def with_registrations(shipped: Shipped) -> Shipped:
    """Return code on its way to another process, together with the registrations under which it is to run."""
    packed = pack_registrations()
    if not packed:
        return shipped
    fingerprint = digest(shipped.fingerprint.encode() + packed)
    shipment = replace(shipped.shipment, fingerprint=fingerprint, registrations=packed)
    return shipped._replace(fingerprint=fingerprint, shipment=shipment)


def use_registrations(packed: bytes) -> None:
    """Replace the registrations for built-in ops by packed ones; does nothing in the process that packed them."""
    global _used
    if packed == _used or (packed and packed == _packed[1]):
        return
    contents: Any = unpickle_value(packed) if packed else ("", ())
    process, entries = contents
    if process == _PROCESS:
        return
    for op in customised():
        op.remove_user_entries()
    for name, kernels, derivatives in entries:
        op = get_op(name)
        for (device, dtype), (run, returns_meta) in kernels:
            op.add_user_kernel(device, dtype, UserKernel(run, returns_meta), True)
        for config in derivatives:
            op.add_user_derivative(config, True)
    _used = packed
