"""Moving a tensor to another device: an op like others, whose derivative moves the gradient back.

Rules of this file: the one op whose operand and result are on two devices. Where nothing is to be moved there is no
op: the functions return what they were given.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import SessionError

from ..devices import Device, device_of
from ..devices.serving import send
from ..dispatch import call
from ..modes import state
from ..recording import Pending
from ..registry import ANY, AutogradConfig, Op, declare
from .define import infer_same


def _moved(a: Any, target: Device, source: Device) -> Any:
    return send(a, target)


def _moved_back(ctx: Any, grad: Any) -> Any:
    target, source = ctx.params
    return call(_TO_DEVICE, (grad,), (source, target))


_TO_DEVICE = declare(Op("to_device", ("a",), infer=infer_same))
_TO_DEVICE.add_kernel(ANY, ANY, _moved)
_TO_DEVICE.add_derivative(AutogradConfig(op="to_device", device=ANY, backward=_moved_back, saves="none"))


def to_device(a: Any, device: Device) -> Any:
    """Return a tensor, or an array, on a device: itself if it is there.

    Raises:
        SessionError: it would move in a session.
    """
    data = getattr(a, "_data", a)
    source = a.device if data is not a else device_of(a)
    if source == device:
        return a
    if state.here.recorder is not None or type(data) is Pending:
        raise SessionError(
            f"a tensor is moved from {source} to {device} in a session: sessions take values of the host only as yet; "
            "move it outside of the session, or ask for a worker's device with raygrad.device(...)"
        )
    return call(_TO_DEVICE, (a,), (device, source))
