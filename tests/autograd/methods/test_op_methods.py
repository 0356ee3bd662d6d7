"""Methods of tensors: each takes what the function of its name takes."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import importlib.util
import inspect

import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.methods import layout_methods, op_methods
from raygrad.autograd.methods.layout_methods import LayoutMethods
from raygrad.autograd.methods.op_methods import TensorMethods
from raygrad.autograd.methods.operators import Operators
from raygrad.autograd.methods.shape_methods import ShapeMethods

CLASSES = (ShapeMethods, LayoutMethods, TensorMethods)
OWN = {name: value for cls in CLASSES for name, value in vars(cls).items() if name[0] != "_"}

VARIADIC = {"reshape", "view", "permute", "expand", "flip"}
"""Their sizes and dimensions come one by one, too."""


def parameters(function):
    return [(p.name, p.default, p.kind) for p in list(inspect.signature(function).parameters.values())[1:]]


@pytest.mark.parametrize(
    "name", sorted(name for name, f in OWN.items() if inspect.isfunction(f) and hasattr(ops, name))
)
def test_same_parameters_as_the_function(name):
    if name in VARIADIC | {"broadcast_to", "polygamma", "where"}:
        return
    assert parameters(OWN[name]) == parameters(getattr(ops, name))


def declared(module, name):
    """The methods of a class of declarations, as its source has them."""
    spec = importlib.util.spec_from_file_location(f"{module.__name__}_declared", module.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return {method: value for method, value in vars(getattr(again, name)).items() if inspect.isfunction(value)}


@pytest.mark.parametrize(
    ("module", "name", "least"), [(op_methods, "TensorMethods", 90), (layout_methods, "LayoutMethods", 30)]
)
def test_each_declaration_is_the_function_that_takes_its_place(module, name, least):
    found = declared(module, name)
    assert len(found) > least
    for method, declaration in found.items():
        function = vars(getattr(module, name))[method]
        assert inspect.unwrap(function) is inspect.unwrap(getattr(ops, declaration.__name__)), method
        assert parameters(declaration) == parameters(function), method
        assert declaration.__doc__, method


@pytest.mark.parametrize("cls", [*CLASSES, Operators])
def test_each_method_says_what_it_does(cls):
    for name, value in vars(cls).items():
        if name[0] != "_" and (inspect.isfunction(value) or isinstance(value, property)):
            assert value.__doc__, name


def test_each_method_without_further_arguments_gives_what_the_function_gives():
    x = rg.tensor([[0.3, 0.6], [0.2, 0.9]])
    count = 0
    for name, method in OWN.items():
        if not inspect.isfunction(method) or not hasattr(ops, name):
            continue
        if any(
            default is inspect.Parameter.empty for _, default, kind in parameters(method) if kind != kind.VAR_POSITIONAL
        ):
            continue
        if name in VARIADIC | {
            "acosh",
            "sort",
            "repeat",
            "tile",
            "clamp",
            "bitwise_not",
            "split",
            "nonzero",
            "unbind",
            "repeat_interleave",
            "get_device",
            "is_complex",
            "is_conj",
            "is_floating_point",
            "is_inference",
            "is_neg",
            "numel",
        }:
            continue
        assert method(x).tolist() == getattr(ops, name)(x).tolist(), name
        count += 1
    assert count > 50


def test_methods_of_torch_that_are_here_take_the_same_names():
    torch = pytest.importorskip("torch")
    missing = [name for name in (*OWN, *vars(Operators)) if name[0] != "_" and not hasattr(torch.Tensor, name)]
    assert missing == []


def test_max_of_a_dimension_names_its_parts(T):
    found = T.tensor([[1.0, 3.0], [5.0, 2.0]]).max(dim=1, keepdim=True)
    assert found.values.tolist() == [[3], [5]]
    assert found.indices.tolist() == [[1], [0]]
    values, indices = T.tensor([3.0, 1.0]).min(0)
    assert (values.item(), indices.item()) == (1, 1)


def test_errors_of_reductions(T):
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"):
        T.ones(2, 3).sum(5)
    with pytest.raises(RuntimeError, match="appears multiple times in the list of dims"):
        T.ones(2, 3).sum((0, 0))
    with pytest.raises(RuntimeError, match="floating point or complex"):
        T.tensor([1, 2]).mean()
    with pytest.raises(RuntimeError, match="only support floating point and complex"):
        T.tensor([1, 2]).var()
    with pytest.raises(RuntimeError, match="Expected reduction dim to be specified"):
        T.ones(0).max()
    with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
        T.ones(2, 0).max(1)
    with pytest.raises(IndexError, match="Expected reduction dim"):
        T.ones(0).argmax()
    with pytest.raises(RuntimeError, match="floating point or complex"):
        T.tensor([1, 2]).norm()
    with pytest.raises(NotImplementedError):
        T.tensor([1, 2]).softmax(0)


def test_errors_of_products(T):
    with pytest.raises(RuntimeError, match="both arguments to matmul need to be at least 1D"):
        T.tensor(1.0).matmul(T.tensor(1.0))
    with pytest.raises(RuntimeError, match=r"inconsistent tensor size|to have the same number"):
        T.ones(3).matmul(T.ones(4))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        T.ones(2, 2, 3).matmul(T.ones(3, 3, 4))
    for name, a, b in (("mm", (2,), (2, 2)), ("mv", (2,), (2,)), ("bmm", (2, 2), (2, 2)), ("dot", (2, 2), (2,))):
        with pytest.raises(RuntimeError):
            getattr(T.ones(*a), name)(T.ones(*b))
    with pytest.raises(RuntimeError):
        T.ones(2, 2, 3).bmm(T.ones(3, 3, 2))
    with pytest.raises(RuntimeError):
        T.ones(2).outer(T.ones(2, 2))


def test_errors_of_choices(T):
    with pytest.raises(RuntimeError, match="boolean"):
        T.where(T.tensor([1]), 1.0, 0.0)
    with pytest.raises(RuntimeError, match="boolean masks"):
        T.ones(2).masked_fill(T.tensor([1, 0]), 0.5)
    with pytest.raises(RuntimeError, match="At least one of"):
        T.ones(2).clamp()
    with pytest.raises(RuntimeError, match="rounding_mode"):
        T.ones(2).div(2, rounding_mode="up")


def test_errors_of_indices(T):
    x = T.ones(3)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        x[5]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 1"):
        x[0, 0]
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 3"):
        x[T.tensor([5])]
    with pytest.raises(IndexError, match=r"The shape of the mask \[2\] at index 0 does not match"):
        x[T.tensor([True, False])]
    with pytest.raises(IndexError, match="only integers, slices"):
        x[1.0]
    with pytest.raises(IndexError, match="tensors used as indices must be"):
        x[T.tensor([1.0])]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        x[::0]
    with pytest.raises(IndexError, match="broadcast"):
        T.ones(3, 3)[T.tensor([0, 1]), T.tensor([0, 1, 2])]
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 0 with size 3"):
        x.gather(0, T.tensor([5]))
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        x.gather(0, T.tensor([[1]]))
    with pytest.raises(RuntimeError):
        T.ones(2, 3).gather(0, T.zeros(1, 4, dtype=T.int64))
    with pytest.raises(IndexError):
        x.index_select(0, T.tensor([5]))
    with pytest.raises(IndexError):
        x.index_select(0, T.tensor([[0]]))
