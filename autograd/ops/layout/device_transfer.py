"""The op that moves a tensor to another device, `to_device`; its derivative moves the gradient back.

The one op whose operand and result are on two devices. Where nothing is to be moved, its operand is returned.
"""

from __future__ import annotations

from typing import Any

from ...devices import Device, device_of
from ...devices.serving import device_named, move_array
from ...dispatch.dispatch import call
from ...registry.define_op import infer_same
from ...registry.registry import ANY, AutogradConfig, Op, declare

_TO_DEVICE = declare(Op("to_device", ("a",), infer=infer_same))
_TO_DEVICE.result_device = lambda params: params[0]
_TO_DEVICE.add_kernel(ANY, ANY, lambda a, target, source: move_array(a, device_named(target)))
_TO_DEVICE.add_derivative(
    AutogradConfig(
        op="to_device", device=ANY, backward=lambda ctx, g: call(_TO_DEVICE, (g,), ctx.params[::-1]), saves="none"
    )
)


def to_device(a: Any, device: Device) -> Any:
    """Return a tensor, or an array, on a device: itself if it is there. In a session it is a node like others."""
    source = a.device if getattr(a, "_data", a) is not a else device_of(a)
    return a if source == device else call(_TO_DEVICE, (a,), (str(device), str(source)))
