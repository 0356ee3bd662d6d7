"""Complex numbers: computed with as PyTorch does, gradients and all, or refused with its builtin type of error."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .cases import FAMILIES
from .check import Case, array_of, check_gradients, outputs_of, weights_for
from .outcomes import ALONG, IN_PLACE, KINDS, ONE, OPERATORS, TWO, UNARY_IN_PLACE, alike, applied, outcome

MORE_OF_ONE = "argwhere asinh atanh imag is_complex is_nonzero isreal nonzero sgn unique unique_consecutive".split()
"""Names that bools are not tried with."""

PAIRS = [(kind, other) for kind in ("complex128", "complex64") for other in KINDS] + [
    (kind, other)
    for kind in ("float", "integer", "bool", "number")
    for other in ("complex128", "imaginary")
    if (kind, other) != ("number", "imaginary")
]

MORE = {
    "maximum minimum fmax fmin atan2 copysign logaddexp logaddexp2 hypot nextafter fmod eq ne lt le gt ge rsub where "
    "logical_and logical_or logical_xor clamp_min clamp_max dist cdist addcdiv addcmul addmm lerp matmul mm mv dot "
    "outer kron tensordot": ("numbers are operands, too", {"number", "two", "half", "imaginary"}),
    "addmm einsum": ("what differs in dtype meets", {*KINDS} - {"complex128"}),
}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@contextlib.contextmanager
def place(where: str) -> Generator[None]:
    """Where a program of raygrad's runs; that nothing imaginary is dropped without a word, NumPy would say."""
    with rg.Session() if where == "session" else contextlib.nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


# ---- by their names --------------------------------------------------------------------------------------------------


def takes_more(name: str, kinds: tuple[str, ...]) -> bool:
    return any(name in names.split() and met & set(kinds) for names, (_, met) in MORE.items())


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["eager", "session"])
@pytest.mark.parametrize("name", [*ONE, *MORE_OF_ONE, *ALONG, *TWO, *OPERATORS, *IN_PLACE, *UNARY_IN_PLACE])
def test_complex_numbers_are_taken_and_refused_as_in_torch(name: str, where: str, torch: Any) -> None:
    wrong: list[str] = []

    def compare(what: str, run: Callable[[Any], Any]) -> None:
        with place(where):
            mine = outcome(lambda: run(rg))
        theirs = outcome(lambda: run(torch))
        if not alike(mine, theirs, 1e-5, 1e-6):
            wrong.append(f"{what}: {mine}, in torch {theirs}")

    if name in (*ONE, *MORE_OF_ONE):
        for kind in ("complex128", "complex64"):
            compare(f"{name}({kind})", lambda T, kind=kind: applied(T, name, kind))
    elif name in ALONG:
        compare(name, lambda T: getattr(T, name)(KINDS["complex128"](T), 0))
        compare(name, lambda T: getattr(T, name)(KINDS["complex64"](T)[:0], 1))
    elif name in UNARY_IN_PLACE:
        compare(name, lambda T: getattr(KINDS["complex128"](T), name)())
    else:
        for kinds in PAIRS:
            if takes_more(name, kinds):
                continue
            if name in TWO:
                compare(f"{name}{kinds}", lambda T, kinds=kinds: applied(T, name, *kinds))
            elif name in OPERATORS:
                compare(f"{name}{kinds}", lambda T, kinds=kinds: getattr(operator, name)(*[KINDS[k](T) for k in kinds]))
            elif kinds[0] != "number":
                first, second = kinds
                compare(f"{name}{kinds}", lambda T, a=first, b=second: getattr(KINDS[a](T), name)(KINDS[b](T)))
    assert not wrong, "\n".join(wrong)


# ---- by the catalogue's cases ----------------------------------------------------------------------------------------

WITHOUT_DERIVATIVE = {
    "linear": ["bilinear"],
    "activations": ["silu"],
    "embedding": ["embedding-square"],
    "distances": ["soft_margin-mean", "soft_margin-sum", "soft_margin-none"],
    "pointwise": ["nan_to_num"],
    "selecting": [
        "select_scatter",
        "slice_scatter",
        *[f"scatter_reduce-{kind}" for kind in ("sum", "mean", "prod", "zero")],
    ],
}
"""Per family, cases of which PyTorch computes the values for complex numbers, and has no derivative: ours are held
against finite differences."""

CASES = [
    (family, case)
    for family, cases in FAMILIES.items()
    for case in cases
    if case.oracle and any(a.dtype.kind == "f" for a in case.inputs)
]


def turned(case: Case, dtype: str) -> Case:
    """A case with complex numbers for the real ones."""

    def complex_(a: np.ndarray) -> np.ndarray:
        if a.dtype.kind not in "fc":
            return a
        return np.asarray(a + 0.5j * np.cos(np.arange(a.size)).reshape(a.shape), dtype)

    return replace(case, inputs=tuple([complex_(a) for a in case.inputs]))


def told(T: Any, case: Case, differentiate: bool) -> tuple[Any, ...]:
    """The dtypes and values of the results of a case, and the gradients of their weighted sum; or the error."""
    tensors = [T.tensor(np.array(a)) for a in case.inputs]
    if differentiate:
        tensors = [t.requires_grad_() if a.dtype.kind in "fc" else t for t, a in zip(tensors, case.inputs, strict=True)]
    found = outcome(lambda: [o.detach() if hasattr(o, "detach") else o for o in outputs_of(case.run(T, *tensors))])
    if found[0] == "error" or not differentiate:
        return found
    outputs = [o for o in outputs_of(case.run(T, *tensors)) if getattr(o, "requires_grad", False)]
    if not outputs:
        return found
    weights = [T.tensor(w).to(o.dtype) for o, w in zip(outputs, weights_for(outputs), strict=True)]
    T.autograd.backward(outputs, weights)
    return *found, *[("gradient", np.zeros(()) if t.grad is None else array_of(t.grad)) for t in tensors]


def is_one_of(name: str, family: str) -> bool:
    return any(name.startswith(start) for start in WITHOUT_DERIVATIVE.get(family, ()))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("where", ["eager", "session"])
@pytest.mark.parametrize("family", sorted({family for family, _ in CASES}))
@pytest.mark.filterwarnings("ignore:Casting complex values to real:UserWarning")
def test_cases_of_complex_numbers_are_as_in_torch(family: str, where: str, dtype: str, torch: Any) -> None:
    wrong: list[str] = []
    rtol, atol = (1e-3, 1e-4) if dtype == "complex64" else (1e-7, 1e-9)
    for case in [turned(case, dtype) for name, case in CASES if name == family]:
        derived = case.order > 0 and not is_one_of(case.name, family)
        with place(where):
            mine = told(rg, case, derived)
        theirs = told(torch, case, derived)
        if not alike(mine, theirs, rtol, atol):
            wrong.append(f"{case.name}: {mine}, in torch {theirs}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "case",
    [turned(c, "complex128") for f, c in CASES if c.order and is_one_of(c.name, f) and not c.name.endswith("-odd")],
    ids=str,
)
def test_derivatives_that_torch_has_not_are_those_of_differences(case: Case) -> None:
    check_gradients(case)


# ---- what an error says ----------------------------------------------------------------------------------------------


def test_an_error_names_the_function_and_says_what_to_do() -> None:
    z = rg.tensor([1 + 2j, 3j])
    for run, what in (
        (lambda: rg.erf(z), r'"erf" not implemented for complex64: .*real numbers.*\.real'),
        (lambda: rg.median(z), r'"median" not implemented for complex64'),
        (lambda: rg.nn.functional.gelu(z), r'"gelu" not implemented for complex64'),
        (lambda: rg.max(z, z), r'"maximum" not implemented for complex64'),
        (lambda: z.sort(), r'"sort" not implemented for complex64'),
    ):
        with pytest.raises(NotImplementedError, match=what):
            run()


def test_of_no_complex_numbers_there_is_no_greatest_unless_a_derivative_is_wanted() -> None:
    none = rg.zeros(0, 3, dtype=rg.complex128)
    assert none.amax(-1).shape == (0,)
    assert none.cummax(0)[0].shape == (0, 3)
    with pytest.raises(NotImplementedError):
        none.requires_grad_().amax(-1)
    with pytest.raises(IndexError):
        none.amax(0)


def test_logarithms_of_sums_are_right_far_from_zero() -> None:
    torch: Any = pytest.importorskip("torch")
    far = [-np.inf, np.inf, np.nan, 0.0, 900.0, -900.0]
    a = np.array([complex(x, y) for x in far for y in (0.0, 4.0, -np.inf, np.nan)])
    left, right = np.meshgrid(a, a)
    mine, theirs = (T.logaddexp(T.tensor(left), T.tensor(right)).numpy() for T in (rg, torch))
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
