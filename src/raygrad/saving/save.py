"""The public functions `raygrad.save` and `raygrad.load`: nested values in safetensors files."""

from __future__ import annotations

import os
from typing import Any

from raygrad.autograd.devices import Device, device
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.client.options import path_of, shown
from raygrad.errors import DeviceError, LoadError
from raygrad.tracebacks import public

from .array_file import damaged, read_arrays, write_arrays
from .structure import Decoder, Encoder, plain_tensor


@public
def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save nested values to a safetensors file, which is replaced as a whole or stays as it was.

    Args:
        obj: tensors, NumPy's arrays and numbers, Python's numbers, strings, bytes and None, dtypes and devices, and
            dicts, lists, tuples and sets of these: what `state_dict()` of optimisers and schedules returns. Values
            that are pending in a session, or live on its workers, are waited for and fetched. Nothing is pickled.
        path: of the file. Other programs find the tensors in it by the keys that lead to them: "model.0.weight".

    What `load` gives back has the same values, dtypes, devices, `requires_grad` and order of axes in memory. A tensor
    that stands in several places is saved once, and is one tensor again, and so are aliases of the whole of a tensor;
    another view is saved as a tensor of its own. Gradients and history are not saved: a tensor with history comes back
    as a leaf, as in PyTorch.

    Raises:
        TypeError: something in it cannot be saved (`SaveError`, whose message names its path and what to do), or the
            path is none.
        OSError: the file cannot be written.
        An error of the session that values are fetched from; nothing is written then.
    """
    path = path_of("raygrad.save(obj, path)", path)
    encoder = Encoder()
    text = encoder.text(obj)
    write_arrays(path, text, encoder.arrays)


@public
def load(path: str | os.PathLike[str], map_location: Any = None) -> Any:
    """Return what `save` wrote to a file; of another program's safetensors file, its tensors in a dict by name.

    Such tensors do not require grad, and those in bfloat16, which NumPy has not, come as float32 with the same numbers.
    No code of the file is run.

    Args:
        path: of the file.
        map_location: the device of all tensors. None puts each on the device that it was saved from.

    Raises:
        OSError: the file cannot be read.
        RuntimeError: it is no safetensors file, was damaged, or holds what raygrad has not (`LoadError`); or a device
            is not here (`DeviceError`), which `map_location="cpu"` avoids.
        TypeError: the path, or the device, is none.
    """
    path = path_of("raygrad.load(path)", path)
    target = None if map_location is None else _device_of(map_location)
    content = read_arrays(path)

    def place(tensor: Tensor, saved_on: str) -> Tensor:
        there = device(saved_on) if target is None else target
        return tensor if there.type == "cpu" else tensor.to(there)

    if content.text is None:
        return {name: place(plain_tensor(array, name), "cpu") for name, array in content.arrays.items()}
    try:
        return Decoder(content.arrays, place).value(content.text)
    except LoadError as error:
        raise LoadError(f"{path!r}: {error}") from None
    except DeviceError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise damaged(path, f"its structure cannot be read ({error!r})") from error


def _device_of(map_location: Any) -> Device:
    if not isinstance(map_location, str | Device):
        raise TypeError(
            "raygrad.load(path, map_location=...) takes a device or its name, such as 'cpu', or None, got "
            f"{shown(map_location)}"
        )
    return device(map_location)
