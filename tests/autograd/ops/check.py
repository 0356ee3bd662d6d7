"""What every built-in op is held to: gradients against finite differences, shape rules against kernels, and torch."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.core.array_layout import as_dense
from raygrad.autograd.registry.registry import Op

STEP = 1e-5
"""Of central differences: their error is near the square of it, that of rounding near 1e-16 / STEP."""


@dataclass(frozen=True)
class Case:
    """One use of the catalogue.

    Attributes:
        name: the id of the test.
        run: `run(T, *tensors)` under raygrad or torch: a tensor, or a tuple of them.
        inputs: float64 (or complex128) arrays are differentiated, others given as they are.
        order: how many times it can be differentiated, against finite differences.
        oracle: whether torch has it.
        float32: whether it is run in float32 as well.
        layouts: whether the strides of its operands are nothing to it.
    """

    name: str
    run: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    order: int = 2
    oracle: bool = True
    float32: bool = True
    layouts: bool = True

    def __str__(self) -> str:
        return self.name


# ---- running ---------------------------------------------------------------------------------------------------------


def leaves(T: Any, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Tensors of copies of the arrays; those that can require grad do."""
    made = [T.tensor(np.array(a)) for a in arrays]
    return [t.requires_grad_() if a.dtype.kind in "fc" else t for t, a in zip(made, arrays, strict=True)]


def array_of(tensor: Any) -> np.ndarray:
    detached = tensor.detach()
    return detached.cpu().numpy() if isinstance(detached, rg.Tensor) else detached.numpy(force=True)


def outputs_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def weights_for(outputs: Sequence[Any]) -> list[np.ndarray | None]:
    """Fixed weights that make one number of the outputs; None for those that carry no gradient."""
    rng = np.random.default_rng(7)
    out: list[np.ndarray | None] = []
    for output in outputs:
        kind = array_of(output).dtype.kind
        weights = rng.uniform(0.5, 1.5, tuple(output.shape))
        out.append(weights + 0.3j if kind == "c" else weights if kind == "f" else None)
    return out


def weighted(T: Any, case: Case, tensors: Sequence[Any]) -> Any:
    """The weighted sum of the outputs of a case: a real number, with its gradient."""
    outputs = outputs_of(case.run(T, *tensors))
    total = None
    for output, weights in zip(outputs, weights_for(outputs), strict=True):
        if weights is not None:
            term = (output * T.tensor(weights).to(output.dtype)).sum()
            term = term.real if weights.dtype.kind == "c" else term
            total = term if total is None else total + term
    assert total is not None
    return total


def gradients(T: Any, case: Case, arrays: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    """The gradients of the weighted sum."""
    tensors = leaves(T, arrays)
    weighted(T, case, tensors).backward()
    return [None if t.grad is None else array_of(t.grad) for t in tensors]


# ---- finite differences ----------------------------------------------------------------------------------------------


def differences(
    value: Callable[[Sequence[np.ndarray]], float], arrays: Sequence[np.ndarray]
) -> list[np.ndarray | None]:
    """Central differences of a function of arrays, by each of their elements; of complex ones along both axes."""
    out: list[np.ndarray | None] = []
    for position, array in enumerate(arrays):
        if array.dtype.kind not in "fc":
            out.append(None)
            continue
        grad = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            for direction in (1.0, 1j) if array.dtype.kind == "c" else (1.0,):
                moved = [value(_moved(arrays, position, index, sign * STEP * direction)) for sign in (1, -1)]
                grad[index] += direction * (moved[0] - moved[1]) / (2 * STEP)
        out.append(grad)
    return out


def _moved(arrays: Sequence[np.ndarray], position: int, index: tuple[int, ...], by: complex) -> list[np.ndarray]:
    changed = arrays[position].copy()
    changed[index] += by
    return [changed if i == position else a for i, a in enumerate(arrays)]


def check_gradients(case: Case) -> None:
    """First derivatives against finite differences."""

    def value(arrays: Sequence[np.ndarray]) -> float:
        with rg.no_grad():
            return weighted(rg, case, [rg.tensor(a) for a in arrays]).item()

    expected = differences(value, case.inputs)
    for got, want in zip(gradients(rg, case, case.inputs), expected, strict=True):
        if want is not None:
            assert got is not None or not want.any(), "no gradient arrived"
            np.testing.assert_allclose(np.zeros_like(want) if got is None else got, want, rtol=1e-6, atol=1e-8)


def slope(case: Case, tensors: Sequence[Any]) -> Any:
    """The derivative of the weighted sum along a fixed direction, itself to be differentiated."""
    rng = np.random.default_rng(3)
    directions = [rng.uniform(0.5, 1.5, a.shape) for a in case.inputs]
    wanted = [t for t in tensors if t.requires_grad]
    grads = rg.autograd.grad(weighted(rg, case, tensors), wanted, create_graph=True, allow_unused=True)
    along = [d for d, t in zip(directions, tensors, strict=True) if t.requires_grad]
    terms = [(g * rg.tensor(d).to(g.dtype)).sum().real for g, d in zip(grads, along, strict=True) if g is not None]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def check_second_order(case: Case) -> None:
    """Second derivatives, along a fixed direction, against differences of first ones."""
    tensors = leaves(rg, case.inputs)
    total = slope(case, tensors)
    expected = differences(lambda arrays: slope(case, leaves(rg, arrays)).item(), case.inputs)
    if not total.requires_grad:  # linear in everything
        for want in expected:
            if want is not None:
                np.testing.assert_allclose(want, 0, atol=1e-7)
        return
    total.backward()
    for tensor, want in zip(tensors, expected, strict=True):
        if want is not None:
            got = np.zeros_like(want) if tensor.grad is None else tensor.grad.numpy()
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def differentiated(case: Case) -> set[str]:
    """The names of the ops whose derivative `check_second_order` goes through: those of the graph of a case, and of the
    graph of its derivative."""
    tensors = leaves(rg, case.inputs)
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [weighted(rg, case, tensors).grad_fn, slope(case, tensors).grad_fn]
    kept: list[Any] = []
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        kept.append(node)
        if isinstance(getattr(node, "op", None), Op):
            found.add(node.op.name)
        waiting.extend(below for below, _ in node.next_functions)
    return found


class Noting:
    """A library that notes which of its functions are asked for, those of its namespaces with a prefix."""

    def __init__(self, module: Any, noted: set[str], prefix: str = "") -> None:
        self._module, self._noted, self._prefix = module, noted, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return Noting(value, self._noted, f"{self._prefix}{name}.")
        self._noted.add(self._prefix + name)
        return value


# ---- shape rules against kernels -------------------------------------------------------------------------------------


def catalogue() -> dict[str, Op]:
    """The ops that the catalogue's own modules define."""
    found: dict[str, Op] = {}
    for info in pkgutil.iter_modules(ops.__path__):
        for value in vars(importlib.import_module(f"raygrad.autograd.ops.{info.name}")).values():
            if isinstance(value, Op) and value.sole is not None:
                found[value.name] = value
    return found


@contextlib.contextmanager
def watched() -> Generator[set[str]]:
    """Compare each kernel's result with the shape rule, while inside; yield the names of the ops that ran."""
    ran: set[str] = set()
    found = catalogue()
    kernels = {name: (op.sole, op.bare, op.simple) for name, op in found.items()}
    for op in found.values():
        compared = _comparing(op, op.sole, ran)
        op.sole, op.bare, op.simple = compared, compared, None if op.simple is None else compared
    try:
        yield ran
    finally:
        for name, (sole, bare, simple) in kernels.items():
            found[name].sole, found[name].bare, found[name].simple = sole, bare, simple


def _comparing(op: Op, kernel: Any, ran: set[str]) -> Any:
    def compared(*args: Any) -> Any:
        result = kernel(*args)
        ran.add(op.name)
        if op.infer is not None:
            count = len(args) if op.operands[-1:] and op.operands[-1].startswith("*") else len(op.operands)
            if op.operands[-1:] and op.operands[-1].startswith("*"):
                count -= 1  # the variadic ops have one parameter
            said = op.infer(tuple(args[count:]), *args[:count])
            made = [np.asarray(r) for r in (result if op.outputs > 1 else (result,))]
            specs = list(said) if op.outputs > 1 else [said]
            assert [(tuple(s), np.dtype(d)) for s, d in specs] == [(a.shape, a.dtype) for a in made], op.name
        return result

    return compared


# ---- one case --------------------------------------------------------------------------------------------------------


def check(case: Case) -> None:
    """Everything that needs no torch."""
    with watched():
        if case.order >= 1:
            check_gradients(case)
        else:
            case.run(rg, *leaves(rg, case.inputs))
        if case.order >= 2:
            check_second_order(case)
    if case.float32:
        check_float32(case)
    if case.layouts:
        check_layouts(case)


def check_float32(case: Case) -> None:
    """In single precision results and gradients have that dtype, and the same values up to its precision."""
    narrow = {"f": np.float32, "c": np.complex64}
    arrays = [a.astype(narrow[a.dtype.kind]) if a.dtype.kind in narrow else a for a in case.inputs]
    wide = [a.astype(b.dtype) for a, b in zip(arrays, case.inputs, strict=True)]
    for single, double in zip(
        outputs_of(case.run(rg, *leaves(rg, arrays))), outputs_of(case.run(rg, *leaves(rg, wide))), strict=True
    ):
        assert single.dtype == double.dtype or single.dtype == {"f": rg.float32, "c": rg.complex64}[double.dtype.kind]
        np.testing.assert_allclose(single.detach().numpy(), double.detach().numpy(), rtol=2e-4, atol=2e-5)
    if case.order:
        for single, double, array in zip(gradients(rg, case, arrays), gradients(rg, case, wide), arrays, strict=True):
            if double is not None:
                assert single is not None
                assert single.dtype == array.dtype
                np.testing.assert_allclose(single, double, rtol=2e-4, atol=2e-4)


def check_layouts(case: Case) -> None:
    """A sliced view gives the bits that its compacted copy gives (H1), and no operand is written to."""
    spaced: list[np.ndarray] = []
    for array in case.inputs:
        wide = np.repeat(array, 2, axis=-1) if array.ndim else array
        view = wide[..., ::2] if array.ndim else wide
        view.flags.writeable = False
        spaced.append(view)
    results: list[list[bytes]] = []
    for arrays in (spaced, [as_dense(a) for a in spaced]):
        tensors = [rg.autograd.Variable.made(a) for a in arrays]
        for tensor in tensors:
            tensor._requires_grad = bool(case.order) and tensor.dtype.kind in "fc"
        outputs = outputs_of(case.run(rg, *tensors))
        if case.order:
            weighted(rg, case, tensors).backward()
        kept = [o.detach() for o in outputs] + [t.grad for t in tensors if t.grad is not None]
        results.append([t.numpy().tobytes() for t in kept])
    assert results[0] == results[1]


def compare(case: Case, torch: Any) -> None:
    """Values and gradients against torch."""
    ours = outputs_of(case.run(rg, *leaves(rg, case.inputs)))
    theirs = outputs_of(case.run(torch, *leaves(torch, case.inputs)))
    for mine, other in zip(ours, theirs, strict=True):
        want = array_of(other)
        assert mine.dtype == want.dtype
        rtol = 1e-6 if want.dtype.name in ("float32", "complex64") else 1e-10
        np.testing.assert_allclose(array_of(mine), want, rtol=rtol, atol=1e-13)
    if case.order:
        pairs = zip(gradients(rg, case, case.inputs), gradients(torch, case, case.inputs), strict=True)
        for got, want in pairs:
            assert (got is None) == (want is None)
            if want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


def compare_at(run: Callable[[Any, Any], Any], point: np.ndarray, torch: Any, *, order: int = 2) -> None:
    """Values, gradients and (`order` 2) second derivatives against torch at one point, which may be a bend, infinite or
    NaN; where no differences could tell."""
    results: list[list[np.ndarray]] = []
    for T in (torch, rg):
        (x,) = leaves(T, [point])
        value = run(T, x)
        (slope,) = T.autograd.grad(value.sum(), x, create_graph=order > 1)
        found = [array_of(value), array_of(slope)]
        if order > 1:
            along = T.tensor(np.linspace(1.0, 2.0, point.size).reshape(point.shape), dtype=slope.dtype)
            # the product with zero is there for slopes that do not depend on the point
            (bend,) = T.autograd.grad((slope * along).sum() + (T.nan_to_num(x, 0.0, 0.0, 0.0) * 0).sum(), x)
            found.append(array_of(bend))
        results.append(found)
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


def functional(T: Any) -> Any:
    """Where `pad`, `softplus` and their kind live."""
    return T.nn.functional
