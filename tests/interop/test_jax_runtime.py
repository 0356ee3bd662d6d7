"""Running JAX inside a node: programs compiled once, arrays without a copy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg
from raygrad.interop.calls import ForeignCall, flattened_arguments
from raygrad.interop.jax_runtime import JaxRuntime, JaxSource, ReadOnlyArray, refuse_wide
from raygrad.workers.code.shipping import pickle_value

jax: Any = pytest.importorskip("jax", reason="interop with JAX: pip install 'raygrad[jax]'")


def aligned(count: int) -> np.ndarray[Any, Any]:
    """An array that begins where XLA wants one to: at a multiple of 64 bytes."""
    room = np.zeros(count + 8)
    start = (-room.ctypes.data % 64) // 8
    return room[start : start + count]


def test_an_array_that_is_read_only_is_given_without_a_copy() -> None:
    array = aligned(1000)
    array.flags.writeable = False
    given = np.asarray(ReadOnlyArray(array))
    assert given.ctypes.data == array.ctypes.data
    with jax.enable_x64(True):
        assert jax.dlpack.from_dlpack(given).unsafe_buffer_pointer() == array.ctypes.data
    assert not array.flags.writeable


def test_tensors_and_arrays_on_the_host_share_memory() -> None:
    theirs = jax.numpy.arange(5.0)
    ours = rg.as_tensor(theirs)
    assert ours.read().ctypes.data == theirs.unsafe_buffer_pointer()
    with jax.enable_x64(True):
        tensor = rg.from_numpy(aligned(64))
        assert jax.dlpack.from_dlpack(tensor).unsafe_buffer_pointer() == tensor.read().ctypes.data


def test_what_is_given_keeps_the_array_alive() -> None:
    given = np.asarray(ReadOnlyArray(np.full(1000, 3.0)))
    assert given.sum() == 3000.0


class Shapes:
    """Remembers, in the process that runs the code, the shapes that it was traced for."""

    seen: ClassVar[list[Any]] = []

    def __call__(self, x: Any, n: int) -> Any:
        Shapes.seen.append((x.shape, n))
        return x * n


SHAPES = Shapes()


def test_code_is_traced_once_per_way_to_call_it_and_shape() -> None:
    runtime = JaxRuntime(pickle_value(JaxSource(abs, "abs")))
    runtime._source = JaxSource(SHAPES, "shapes")
    _, structure, leaves = flattened_arguments(((0.5, 2), {}), lambda leaf: isinstance(leaf, float))
    call = ForeignCall(structure, leaves, 0, (True,))
    for count in (3, 3, 4, 3):
        ran = runtime.run(call, [np.ones(count)], (0,))
        assert runtime.vjp(ran.kept, (0,), [np.ones(count)], False)[0].tolist() == [2.0] * count  # type: ignore[union-attr]
    assert Shapes.seen == [((3,), 2), ((4,), 2)]


def test_one_runtime_serves_nodes_of_one_definition() -> None:
    def double(x: Any) -> Any:
        return x * 2

    one, two = rg.interop.jax.function(double), rg.interop.jax.function(double)
    runtime = one.function_class.runtime()
    assert isinstance(runtime, JaxRuntime)
    assert two.function_class.runtime() is runtime


def test_only_64_bits_are_refused() -> None:
    refuse_wide("node", [np.dtype(np.float32), np.dtype(np.int64)])
    with pytest.raises(RuntimeError, match="complex128"):
        refuse_wide("node", [np.dtype(np.complex128)])


def test_h10_what_jax_keeps_is_counted() -> None:
    node = rg.interop.jax.function(lambda x: jax.numpy.exp(x))
    y = node(rg.ones(1000, dtype=rg.float64, requires_grad=True))
    assert y.grad_fn.held.nbytes == 8000
