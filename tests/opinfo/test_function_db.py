"""The autograd Functions of PyTorch's own table, on its samples, under every kind of derivative and transform."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

NAMES = """
    NumpyCube NumpyExpMarkDirty NumpyMul NumpyCubeNotComposable NumpySort NumpyTake Select CubeGenVmap MulGenVmap
    SortGenVmap SelectGenVmap ScaleGradGenVmap ZeroGradientsGenVmap ForwardHasDefaultArgs
""".split()
SUFFIX = "AutogradFunction"

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


class Case:
    """One Function on one sample: what is called in each library, on the sample's tensor alone."""

    def __init__(self, name: str) -> None:
        pytest.importorskip("torch")
        import torch

        self.kinds = import_module(f"{__package__}.kinds")
        self.compare = import_module(f"{__package__}.compare")
        entries = import_module(f"{__package__}.function_db").function_entries()
        self.entry = next(one for one in entries if one.info.name == name + SUFFIX)
        torch.manual_seed(5)
        given = self.entry.info.sample_inputs("cpu", torch.float64, requires_grad=True)
        self.samples = [self.kinds.sample_of(one) for one in given]

    def each(self, compared: Callable[[Any], bool]) -> list[bool]:
        return [compared(sample) for sample in self.samples]


Transform = Callable[[Any, Any, Any, Any], Any]

TRANSFORMS: dict[str, Transform] = {
    "grad": lambda F, f, x, batch: F.grad(summed(f))(x),
    "jvp": lambda F, f, x, batch: F.jvp(f, (x,), (x * 0.5,)),
    "vmap": lambda F, f, x, batch: F.vmap(f)(batch),
    "vmap of vmap": lambda F, f, x, batch: F.vmap(F.vmap(f))(batch.unsqueeze(0)),
    "vmap of grad": lambda F, f, x, batch: F.vmap(F.grad(summed(f)))(batch),
    "vmap of vjp": lambda F, f, x, batch: F.vmap(lambda t: F.vjp(summed(f), t)[1](t.sum()))(batch),
    "vmap of jvp": lambda F, f, x, batch: F.vmap(lambda t: F.jvp(f, (t,), (t * 0.5,)))(batch),
    "vmap of vmap of grad": lambda F, f, x, batch: F.vmap(F.vmap(F.grad(summed(f))))(batch.unsqueeze(0)),
    "vmap of grad of grad": lambda F, f, x, batch: F.vmap(F.grad(summed(F.grad(summed(f)))))(batch),
    "grad of vmap": lambda F, f, x, batch: F.grad(summed(F.vmap(f)))(batch),
    "jvp of vmap": lambda F, f, x, batch: F.jvp(F.vmap(f), (batch,), (batch * 0.5,)),
    "jacrev": lambda F, f, x, batch: F.jacrev(f)(x),
    "jacfwd": lambda F, f, x, batch: F.jacfwd(f)(x),
    "hessian": lambda F, f, x, batch: F.hessian(summed(f))(x),
}


def summed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The sum of the squares of all floating outputs."""

    def scalar(x: Any) -> Any:
        outputs = f(x)
        found = [one for one in (outputs if isinstance(outputs, tuple) else (outputs,)) if "float" in str(one.dtype)]
        return sum(((one * one).sum() for one in found[1:]), (found[0] * found[0]).sum())

    return scalar


def test_the_table_is_complete() -> None:
    pytest.importorskip("torch")
    entries = import_module(f"{__package__}.function_db").function_entries()
    assert [one.info.name for one in entries] == [name + SUFFIX for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_values_gradients_and_second_gradients(name: str) -> None:
    case = Case(name)
    entry, kinds = case.entry, case.kinds
    assert all(case.each(lambda s: kinds.value(entry, entry.function, s, None)))
    assert all(case.each(lambda s: kinds.gradient(entry, entry.function, s, None)))
    case.each(lambda s: kinds.gradient(entry, entry.function, s, None, True))  # some are constant
    assert all(case.each(lambda s: kinds.session(entry, entry.function, s, None)))
    if entry.inplace is not None:
        assert all(case.each(lambda s: kinds.inplace(entry, entry.inplace, s, None)))


NOT_LINEAR = {("CubeGenVmap", "hessian", "session")}
"""`CubeGenVmap.backward` is not linear in its gradients: what is computed of its derivatives is a question of how."""


@pytest.mark.parametrize("where", ["eager", "session"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", NAMES)
def test_transforms(name: str, transform: str, where: str) -> None:
    if (name, transform, where) in NOT_LINEAR:
        pytest.skip("its derivatives are no derivatives")
    case = Case(name)
    for sample in case.samples:
        _compare(case, sample, TRANSFORMS[transform], where == "session")


def _compare(case: Case, sample: Any, run: Transform, in_session: bool) -> None:
    """Run a transform in both libraries: the results are equal, or both refuse with one type of error."""
    import torch

    import raygrad as rg

    translate = import_module(f"{__package__}.translate")
    args = tuple(arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in sample.args)
    mine = tuple(translate.to_raygrad(arg) for arg in args)
    x = sample.input.detach()
    batch = torch.stack([x, x * 0.75, x * 1.25])
    theirs, ours = case.entry.function

    def got() -> Any:
        with rg.Session() if in_session else rg.enable_grad():
            found = run(rg.func, lambda t: ours(t, *mine), translate.tensor(x), translate.tensor(batch))
            return [translate.to_torch(one) for one in case.compare.flat(found)]

    try:
        expected = run(torch.func, lambda t: theirs(t, *args), x, batch)
    except RuntimeError as refused:
        with pytest.raises(RuntimeError if isinstance(refused, NotImplementedError) else type(refused)):
            got()
        return
    found = [translate.tensor(one) for one in got()]
    case.compare.same(case.compare.flat(expected), found, None)
