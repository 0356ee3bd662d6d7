"""Making tensors: dtypes, memory, shapes and errors as PyTorch's."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.simulated.simulated_array import StandInArray
from raygrad.errors import DtypeError


def same(tensor: Any, values: Any, dtype: str) -> None:
    assert str(tensor.dtype).removeprefix("torch.") == dtype
    assert tensor.tolist() == values


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"), (1.5, "float32"), (True, "bool"), (1j, "complex64"), ([], "float32"), ([[]], "float32"),
        ([1, 2.5], "float32"), ([True, 2], "int64"), ([[1, 2], [3, 4]], "int64"), ((1.0, 2.0), "float32"),
    ],
)  # fmt: skip
def test_numbers_get_the_default_dtype_of_their_kind(T, data, dtype):
    made = T.tensor(data)
    assert str(made.dtype).removeprefix("torch.") == dtype
    assert tuple(made.shape) == np.shape(data)


def test_arrays_and_their_numbers_keep_their_dtype(T):
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.int32, np.uint8, np.bool_, np.complex128):
        same(T.tensor(np.ones(2, dtype)), [1, 1], np.dtype(dtype).name)
    same(T.tensor(np.float64(2)), 2.0, "float64")
    same(T.tensor([np.float64(2)]), [2.0], "float64")


def test_tensors_inside_a_list(T):
    same(T.tensor([T.tensor(1.0), T.tensor(2.0)]), [1.0, 2.0], "float32")


def test_a_given_dtype_wins(T):
    same(T.tensor([1, 2], dtype=T.float64), [1.0, 2.0], "float64")
    same(T.tensor([1.7, -1.7], dtype=T.int64), [1, -1], "int64")
    same(T.tensor(np.ones(2), dtype=T.float32), [1.0, 1.0], "float32")


def test_the_default_dtype_can_be_set(T):
    T.set_default_dtype(T.float64)
    try:
        same(T.tensor(1.5), 1.5, "float64")
        same(T.ones(1), [1.0], "float64")
        same(T.tensor([1]) / 2, [0.5], "float64")
    finally:
        T.set_default_dtype(T.float32)


def test_rows_of_unequal_length_are_refused(T):
    with pytest.raises(ValueError, match="expected sequence"):
        T.tensor([[1, 2], [3]])


def test_what_is_no_number_is_refused(T):
    with pytest.raises((TypeError, ValueError)):
        T.tensor(["a"])
    with pytest.raises((TypeError, RuntimeError)):
        T.tensor(object())


def test_an_unknown_dtype_is_refused_by_name():
    with pytest.raises(DtypeError, match=r"datetime64.*supported dtypes are: .*float32"):
        rg.tensor(np.zeros(1, "datetime64[s]"))
    with pytest.raises(DtypeError, match=">f8"):
        rg.from_numpy(np.zeros(1, ">f8"))


def test_integers_cannot_require_grad(T):
    with pytest.raises(RuntimeError, match="floating point and complex"):
        T.tensor([1], requires_grad=True)


def test_tensor_copies_and_the_others_share(T):
    array = np.zeros(2)
    copied, shared, taken = T.tensor(array), T.as_tensor(array), T.from_numpy(array)
    array[0] = 5
    assert (copied[0].item(), shared[0].item(), taken[0].item()) == (0, 5, 5)
    assert T.as_tensor(shared) is shared
    assert T.as_tensor(shared, dtype=T.float32).dtype == T.float32


def test_from_numpy_takes_arrays_only(T):
    with pytest.raises(TypeError, match="expected np"):
        T.from_numpy([1.0])


def test_axis_order_of_an_array_is_kept():
    assert rg.tensor(np.ones((2, 3)).T).stride() == (1, 3)


def test_filled(T):
    same(T.zeros(2, 1), [[0.0], [0.0]], "float32")
    same(T.ones((2,), dtype=T.int64), [1, 1], "int64")
    same(T.full((2,), 3), [3, 3], "int64")
    same(T.full((1,), 1.5), [1.5], "float32")
    same(T.full((), True), True, "bool")
    assert tuple(T.empty(2, 3).shape) == (2, 3)
    assert tuple(T.zeros([2, 0]).shape) == (2, 0)
    assert T.zeros(()).ndim == 0
    assert T.ones(2, requires_grad=True).requires_grad


def test_filled_like_another(T):
    x = T.ones(2, 2, dtype=T.float64)
    same(T.zeros_like(x), [[0.0, 0.0], [0.0, 0.0]], "float64")
    same(T.ones_like(x, dtype=T.int64), [[1, 1], [1, 1]], "int64")
    same(T.full_like(x, 2.5), [[2.5, 2.5], [2.5, 2.5]], "float64")
    assert T.empty_like(x).shape == x.shape
    assert not T.zeros_like(x.requires_grad_()).requires_grad
    same(x.new_zeros(1), [0.0], "float64")
    same(x.new_ones((1,), dtype=T.float32), [1.0], "float32")
    same(x.new_full((1,), 3), [3.0], "float64")
    same(x.new_tensor([1]), [1.0], "float64")


@pytest.mark.parametrize(
    "arguments", [(3,), (1, 4), (0, 10, 3), (0, 1, 0.25), (5, 0, -2), (2.0,), (0.5, 3), (0,), (3, 3)]
)
def test_arange(T, arguments):
    torch = pytest.importorskip("torch") if T is not rg else None
    made = T.arange(*arguments)
    assert made.tolist() == pytest.approx(np.arange(*arguments).tolist())
    assert made.dtype == (T.int64 if all(isinstance(a, int) for a in arguments) else T.float32), torch


def test_arange_that_leads_nowhere(T):
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        T.arange(0, 3, 0)
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        T.arange(3, 0)


def test_linspace_and_eye(T):
    same(T.linspace(0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0], "float32")
    same(T.eye(2), [[1.0, 0.0], [0.0, 1.0]], "float32")
    same(T.eye(1, 2, dtype=T.int64), [[1, 0]], "int64")


def test_random_numbers_start_from_the_seed(T):
    def draws():
        T.manual_seed(3)
        return [T.randn(4).tolist(), T.rand(2, 2).tolist(), T.randint(9, (5,)).tolist(), T.randint(2, 4, (5,)).tolist()]

    first = draws()
    assert draws() == first
    T.manual_seed(4)
    assert T.randn(4).tolist() != first[0]
    assert set(first[3]) <= {2, 3}


def test_random_dtypes_and_distributions(T):
    T.manual_seed(0)
    x = T.randn(20_000, dtype=T.float64, requires_grad=True)
    assert x.requires_grad
    assert abs(x.mean().item()) < 0.03
    assert abs(x.std().item() - 1) < 0.03
    u = T.rand(20_000)
    assert u.dtype == T.float32
    assert 0 <= u.min().item() < u.max().item() < 1
    assert T.randn(2, dtype=T.complex64).dtype == T.complex64
    assert T.randn_like(x).dtype == T.float64
    assert tuple(T.rand_like(u).shape) == (20_000,)
    assert sorted(T.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    assert T.randint(5, (2,)).dtype == T.int64


def test_a_device_that_is_not_here_is_refused():
    assert rg.zeros(1, device="cpu").device == rg.device("cpu")
    with pytest.raises(RuntimeError, match="cuda:7"):
        rg.zeros(1, device="cuda:7")


def test_neighbours_on_the_host_share_memory():
    torch = pytest.importorskip("torch")
    theirs = torch.ones(2)
    ours = rg.as_tensor(theirs)
    theirs[0] = 5
    assert ours.tolist() == [5.0, 1.0]
    back = torch.from_dlpack(ours)
    back[1] = 7
    assert theirs.tolist() == [5.0, 7.0]


class OnAGpu:
    """What another library has on a GPU."""

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_what_is_on_a_gpu_is_taken_by_dlpack_where_it_has_that():
    """By its other interface nobody would wait for the stream that still writes to it."""
    theirs = OnAGpu()
    with use_stand_in(1) as devices:
        with pytest.raises(BufferError, match="cannot reach the memory of a GPU, where this OnAGpu is"):
            rg.as_tensor(theirs)
        there = devices.xp.ones(2)
        devices.xp.__dict__["from_dlpack"] = lambda data: there if data is theirs else None
        assert rg.as_tensor(theirs).read() is there


def test_a_tensor_is_given_by_dlpack_with_its_device_as_the_current_one(monkeypatch: pytest.MonkeyPatch):
    """The library tells the stream of the current device what the taker is to wait for."""
    with use_stand_in(2) as devices:
        monkeypatch.setattr(StandInArray, "__dlpack__", lambda array, **options: (devices.current(), options))
        monkeypatch.setattr(
            StandInArray, "__cuda_array_interface__", property(lambda array: devices.current()), raising=False
        )
        x = rg.ones(2, device="cuda:1")
        assert x.__dlpack__(stream=5) == (1, {"stream": 5})
        assert x.__cuda_array_interface__ == 1
        assert devices.current() == 0


def test_asarray_shares_memory_where_it_can():
    array = np.arange(3.0)
    shared = rg.asarray(array, copy=False)
    array[0] = 7
    assert shared.tolist() == [7, 1, 2]
    assert rg.asarray(shared) is shared
    assert rg.asarray(array, copy=True).add_(1).tolist() == [8, 2, 3]
    assert array[0] == 7
    assert rg.asarray([1, 2.5]).dtype == rg.float32
    assert rg.asarray(array, dtype=rg.float32).dtype == rg.float32
    leaf = rg.asarray(shared * 1, requires_grad=True)
    assert leaf.is_leaf
    for data, options in (([1.0], {}), (array, {"dtype": rg.float32})):
        with pytest.raises(ValueError, match="cannot share"):
            rg.asarray(data, copy=False, **options)


def test_what_speaks_dlpack_is_taken_over_without_a_copy():
    class Speaks:
        def __init__(self, array: Any) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    array = np.arange(3.0)
    for given in (array, Speaks(array), rg.from_numpy(array)):
        taken = rg.from_dlpack(given)
        assert taken.read().ctypes.data == array.ctypes.data
        own = rg.from_dlpack(given, copy=True)
        assert own.tolist() == taken.tolist()
        assert own.read().ctypes.data != array.ctypes.data
    with pytest.raises(
        TypeError, match="from_dlpack expects an array or tensor with the method '__dlpack__', got list"
    ):
        rg.from_dlpack([1.0])
    with pytest.raises(BufferError, match="require gradient"):
        rg.from_dlpack(rg.ones(1, requires_grad=True))
