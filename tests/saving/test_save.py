"""What `raygrad.save` writes, `raygrad.load` gives back, and what it refuses."""

from __future__ import annotations

import collections
import enum
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import DeviceError, LoadError, SaveError

DTYPES = "float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 bool".split()


def same(a: Any, b: Any) -> bool:
    """Whether two nested values have the same types and the same bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, rg.Tensor):
        return (a.requires_grad, str(a.device), a.dtype, a.shape) == (
            b.requires_grad,
            str(b.device),
            b.dtype,
            b.shape,
        ) and a.detach().cpu().numpy().tobytes() == b.detach().cpu().numpy().tobytes()
    if isinstance(a, np.ndarray):
        return a.dtype.str == b.dtype.str and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(k, m) and same(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    return a == b


def again(value: Any, folder: Path, **options: Any) -> Any:
    rg.save(value, folder / "file.safetensors")
    return rg.load(folder / "file.safetensors", **options)


arrays = hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)).flatmap(
    lambda array: st.permutations(range(array.ndim)).map(array.transpose)
)
tensors = st.builds(
    lambda array, grad, every: rg.from_numpy(array[::every] if array.ndim else array).requires_grad_(
        grad and array.dtype.kind in "fc"
    ),
    arrays,
    st.booleans(),
    st.sampled_from([1, 2, -1]).filter(lambda every: every > 0),
)
swapped = arrays.map(lambda array: array.astype(array.dtype.newbyteorder(">")))
plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(allow_nan=False), st.binary(max_size=9),
    st.text(st.characters(codec=None), max_size=9), st.sampled_from(DTYPES)
    .flatmap(lambda dtype: hnp.arrays(dtype, ()).map(lambda array: array[()])),
    st.sampled_from([rg.float32, rg.device("cpu"), frozenset([1, "a"]), {2, 3}]),
)  # fmt: skip
keys = st.one_of(st.text(max_size=6), st.integers(), st.none(), st.tuples(st.integers(), st.text(max_size=2)))
nested = st.recursive(
    st.one_of(tensors, swapped, plain),
    lambda inside: st.one_of(
        st.lists(inside, max_size=4),
        st.lists(inside, max_size=4).map(tuple),
        st.dictionaries(keys, inside, max_size=4),
        st.dictionaries(keys, inside, max_size=4).map(collections.OrderedDict),
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(value=nested)
def test_any_nested_value_comes_back_as_it_was(value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert same(again(value, tmp_path_factory.mktemp("saved")), value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_each_dtype_and_shape_comes_back(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    tensor = rg.from_numpy(np.arange(math.prod(shape)).reshape(shape).astype(dtype))
    found = again({"x": tensor}, tmp_path)["x"]
    assert same(found, tensor)
    if found.dtype.kind == "f":
        found.add_(1)  # it is memory of its own, and can be written to


def test_the_order_of_axes_in_memory_comes_back(tmp_path: Path) -> None:
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    found = again([rg.from_numpy(array), np.asfortranarray(array[0])], tmp_path)
    assert found[0].numpy().strides == array.strides
    assert found[1].flags.f_contiguous


def test_names_of_one_tensor_are_one_tensor_again_and_aliases_share_memory(tmp_path: Path) -> None:
    x = rg.arange(4.0).requires_grad_()
    found = again({"a": x, "b": [x, x.detach()], "apart": x.detach().clone(), "view": x.detach()[1:]}, tmp_path)
    assert found["a"] is found["b"][0]
    assert not found["b"][1].requires_grad
    found["b"][1].add_(1)
    assert found["a"].tolist() == [1, 2, 3, 4]
    assert found["apart"].tolist() == [0, 1, 2, 3]
    assert found["view"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("strict", [False, True])
def test_pending_values_are_fetched_and_only_aliases_share_memory_afterwards(strict: bool, tmp_path: Path) -> None:
    with rg.Session(strict=strict):
        x = rg.arange(3.0) * 2
        y = rg.zeros(3)
        y.copy_(x)
        z = x.clone()
        found = again({"x": x, "y": y, "z": z, "alias": x.detach()}, tmp_path)
    assert [found[name].tolist() for name in "xyz"] == [[0, 2, 4]] * 3
    found["alias"].add_(1)
    assert found["x"].tolist() == [1, 3, 5]
    assert found["y"].tolist() == found["z"].tolist() == [0, 2, 4]


def test_nothing_is_written_when_the_run_of_a_value_fails(tmp_path: Path) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
            raise ValueError("no value")

    rg.save({"old": 1}, tmp_path / "file")
    with rg.Session(), pytest.raises(ValueError, match="no value"):
        rg.save([Fails.apply(rg.ones(2))], tmp_path / "file")
    assert rg.load(tmp_path / "file") == {"old": 1}


def test_saving_does_not_mark_a_tensor_as_shared(tmp_path: Path) -> None:
    x = rg.ones(3, requires_grad=True)
    rg.save(x, tmp_path / "file")
    assert not x._shares_memory


def test_a_tensor_with_history_comes_back_as_a_leaf(tmp_path: Path) -> None:
    found = again(rg.ones(2, requires_grad=True) * 2, tmp_path)
    assert found.is_leaf
    assert found.requires_grad
    assert found.tolist() == [2, 2]


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_tensors_of_devices_return_to_them_or_go_where_they_are_sent(inside: bool, tmp_path: Path) -> None:
    with use_stand_in(2):
        if inside:
            with rg.Session(workers=1):
                x = rg.arange(3.0, device="cuda:1") * 2
                rg.save([x, x.detach()], tmp_path / "file")
        else:
            x = rg.arange(3.0, device="cuda:1") * 2
            rg.save([x, x.detach()], tmp_path / "file")
        found = rg.load(tmp_path / "file")
        assert [str(one.device) for one in found] == ["cuda:1"] * 2
        found[1].add_(1)
        assert found[0].tolist() == [1, 3, 5]
        assert str(rg.load(tmp_path / "file", map_location="cuda:0")[0].device) == "cuda:0"
    with pytest.raises(DeviceError, match=r"saved from cuda:1.*map_location='cpu'"):
        rg.load(tmp_path / "file")
    assert same(rg.load(tmp_path / "file", map_location="cpu")[0], rg.tensor([0.0, 2.0, 4.0]))
    with pytest.raises(TypeError, match="map_location"):
        rg.load(tmp_path / "file", map_location={"cuda:1": "cpu"})


class Color(enum.IntEnum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"optimizer": {"state": {3: {"momentum": object()}}}}, r"optimizer\.state\[3\]\['momentum'\] is of the type"),
        ({"model": [1, lambda: 0]}, r"model\[1\] is of .*no code"),
        (rg.optim.SGD([rg.ones(1, requires_grad=True)]), r"the object is .*SGD.*state_dict\(\)"),
        ({"opt": rg.optim.SGD([rg.ones(1, requires_grad=True)])}, r"opt\.state_dict\(\)"),
        ([Color.RED], r"\[0\] is of .*Color.*plain int"),
        ([Pair(1, 2)], r"plain tuple"),
        (["a", collections.defaultdict(list)], r"\[1\].*plain dict"),
        ([np.array(["a"])], r"\[0\] has the dtype <U1"),
        ([np.array([None])], r"\[0\] has the dtype object"),
        ([np.longdouble(1)], "dtype"),
        ({rg.ones(1): 1}, r"the object has a Tensor as a key"),
        ([np.ma.masked_array([1])], "plain array"),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_is_refused_by_its_path_and_leaves_the_file(
    value: Any, message: str, tmp_path: Path
) -> None:
    rg.save(1, tmp_path / "file")
    with pytest.raises(SaveError, match=message) as raised:
        rg.save(value, tmp_path / "file")
    assert isinstance(raised.value, TypeError)
    assert rg.load(tmp_path / "file") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_cycles_and_deep_nesting_are_refused(tmp_path: Path) -> None:
    ring: dict[str, Any] = {}
    ring["inner"] = [ring]
    with pytest.raises(SaveError, match=r"inner\[0\] contains itself"):
        rg.save(ring, tmp_path / "file")
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(SaveError, match="nested more than"):
        rg.save(deep, tmp_path / "file")
    shared = [1]
    assert again([shared, shared], tmp_path) == [[1], [1]]


def test_names_that_would_be_equal_are_told_apart(tmp_path: Path) -> None:
    value = {"a.b": rg.ones(1), "a": {"b": rg.zeros(1)}, "__metadata__": rg.ones(2), "": rg.ones(3)}
    value["\ud800"] = rg.ones(4)
    assert same(again(value, tmp_path), value)


@pytest.mark.parametrize("path", [3, b"file", "", None])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    for call in (lambda: rg.save(1, path), lambda: rg.load(path)):
        with pytest.raises((TypeError, ValueError), match="the path of a file"):
            call()


def test_a_missing_file_folder_or_a_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rg.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no folder"):
        rg.save(1, tmp_path / "none" / "file")
    with pytest.raises(IsADirectoryError):
        rg.save(1, tmp_path)
    with pytest.raises(OSError, match=r"irectory"):
        rg.load(tmp_path)
    with pytest.raises(OSError, match="no regular file"):
        rg.save(1, "/dev/null")


def test_the_number_of_an_unknown_dtype_is_refused_when_loaded(tmp_path: Path) -> None:
    assert again([np.arange(3, dtype=np.uint16)], tmp_path)[0].dtype == np.uint16
    assert issubclass(LoadError, RuntimeError)
