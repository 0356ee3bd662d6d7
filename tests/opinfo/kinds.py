"""The kinds of comparison: values, gradients, double backward, jvp, vmap, other forms, refusals, sessions.

Each takes one sample, runs it under both libraries and returns how it went. `units` calls them for every sample of an
entry in one dtype.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import raygrad as rg

from .compare import EXACT, Disagreement, flat, same, same_gradients
from .entries import Entry, Form
from .precision import rounded, widened
from .reference import by_reference
from .ties import by_element
from .translate import Dropped, Untranslatable, retyped, tensor, to_raygrad, to_torch

Within = tuple[float, float] | None

REFUSED = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    NotImplementedError,
    KeyError,
    AttributeError,
    AssertionError,
)
"""What torch raises for what it does not take."""


@dataclass(frozen=True)
class Sample:
    """Arguments of one call: the first, and those behind it."""

    input: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    output: Callable[[Any], Any] | None = None

    @property
    def all(self) -> tuple[Any, ...]:
        return (self.input, *self.args)


def sample_of(given: Any) -> Sample:
    """Return torch's sample, its output processing included."""
    process = given.output_process_fn_grad
    return Sample(given.input, tuple(given.args), dict(given.kwargs), process)


def ours(sample: Sample) -> Sample:
    """Return a sample of torch's with raygrad's values.

    Raises:
        Untranslatable: raygrad has no counterpart of one.
    """
    options = to_raygrad(sample.options)
    args = tuple(arg for arg in to_raygrad(sample.args) if arg is not Dropped)
    process: Any = sample.output
    if process is not None:
        try:
            process = retyped(process)
        except AttributeError:
            process = None
    return Sample(to_raygrad(sample.input), args, options, process)


def _apply(function: Any, sample: Sample) -> Any:
    if function is None:
        raise Disagreement("there is no such method")
    return function(*sample.all, **sample.options)


def _settled(result: Any, sample: Sample) -> Any:
    """Return a result without what is arbitrary in it, such as the signs of singular vectors."""
    return result if sample.output is None else sample.output(result)


# ---- what is computed ------------------------------------------------------------------------------------------------


def value(entry: Entry, form: Form, sample: Sample, within: Within) -> bool:
    """Compare the results of one form; return False where torch refuses the sample.

    Raises:
        Disagreement: they differ.
    """
    try:
        with torch.no_grad():
            expected = _settled(_apply(form[0], sample), sample)
    except REFUSED:
        return False
    mine = ours(sample)
    with rg.no_grad():
        got = _settled(_apply(form[1], mine), mine)
    got = by_element(entry.info.name, mine, got)
    within = (0.0, 0.0) if entry.info.name in EXACT else within

    def compare(expected: Any) -> None:
        same(by_element(entry.info.name, sample, expected), got, within, entry.draws(sample.options))

    def wide() -> Any:
        with torch.no_grad():
            doubled = _widened(sample)
            return _settled(_apply(form[0], doubled), doubled)

    try:
        _judge(compare, expected, sample, wide)
    except Disagreement as differs:
        by_reference(entry.info, sample, expected, compare, differs)
    return True


def out(entry: Entry, form: Form, sample: Sample) -> bool:
    """Compare what is written to the tensors of `out=` with what raygrad returns without it, and dtypes and shapes with
    torch's; return False where torch refuses the sample.

    Raises:
        Disagreement: they differ, or other tensors are returned.
    """
    with torch.no_grad():
        try:
            shown = _apply(form[0], sample)
            targets = [torch.empty_like(one) for one in flat(shown)]
            form[0](*sample.all, **sample.options, out=_as_given(targets, shown))
        except REFUSED:
            return False
    mine = ours(sample)
    own = [to_raygrad(torch.empty_like(one)) for one in flat(shown)]
    with rg.no_grad():
        plain = _apply(form[1], mine)
        got = form[1](*mine.all, **mine.options, out=_as_given(own, shown))
    if not all([one is target for one, target in zip(flat(got), own, strict=True)]):
        raise Disagreement("another tensor than that of `out` is returned")
    same(targets, flat(got), None, drawn=True)
    same([to_torch(one) for one in flat(plain)], flat(got), (0.0, 0.0), entry.draws(sample.options))
    return True


def _as_given(targets: list[Any], shown: Any) -> Any:
    """Return the argument `out` for results such as these."""
    return targets[0] if isinstance(shown, torch.Tensor) else tuple(targets)


def _widened(sample: Sample) -> Sample:
    return Sample(widened(sample.input), widened(sample.args), widened(sample.options), sample.output)


def _judge(compare: Callable[[Any], None], expected: Any, sample: Sample, wide: Callable[[], Any]) -> None:
    """Compare with torch's result; where that differs, with the one in double precision that `wide` makes, rounded.

    Raises:
        Disagreement: both differ, or the first does and nothing in it or in the sample is in single precision.
    """
    try:
        compare(expected)
    except Disagreement as differs:
        leaves = flat(expected)
        given = [*leaves, *flat(list(sample.all)), *flat(sample.options)]
        if not any(isinstance(one, torch.Tensor) and one.dtype in (torch.float32, torch.complex64) for one in given):
            raise
        try:
            again = rounded(flat(wide()), leaves)
        except REFUSED:
            raise differs from None
        compare(again)


def _leaves(sample: Any) -> list[Any]:
    """Return the tensors of a sample that require a gradient, in the order of its arguments."""
    found = [*flat(list(sample.all)), *flat(sample.options)]
    return [one for one in found if isinstance(one, torch.Tensor | rg.Tensor) and one.requires_grad]


def _cotangents(outputs: Sequence[Any], seed: int = 7) -> list[Any]:
    """Return fixed cotangents of torch's outputs, as torch's tensors."""
    draw = np.random.default_rng(seed)
    made: list[Any] = []
    for output in outputs:
        numbers = draw.uniform(0.5, 1.5, tuple(output.shape))
        if output.dtype.is_complex:
            numbers = numbers + 1j * draw.uniform(-0.5, 0.5, tuple(output.shape))
        made.append(torch.tensor(numbers, dtype=output.dtype))
    return made


def _graded(result: Any) -> list[Any]:
    return [one for one in flat(result) if isinstance(one, torch.Tensor | rg.Tensor) and one.requires_grad]


def gradient(entry: Entry, form: Form, sample: Sample, within: Within, twice: bool = False) -> bool:
    """Compare gradients by all differentiable inputs, at fixed cotangents; with `twice`, those of the gradients, too.

    Returns:
        False where torch gives none.

    Raises:
        Disagreement: they differ.
    """
    leaves = _leaves(sample)

    def theirs(sample: Sample, cotangents: Sequence[Any], exact: Callable[[Any], Any]) -> tuple[Any, Any]:
        outputs = _graded(_settled(_apply(form[0], sample), sample))
        leaves = _leaves(sample)
        given = [exact(one) for one in cotangents or _cotangents(outputs)]
        first = torch.autograd.grad(outputs, leaves, given, allow_unused=True, create_graph=twice)
        return first, _second(torch, first, leaves, exact) if twice else None

    try:
        outputs = _graded(_settled(_apply(form[0], sample), sample))
        if not outputs:
            return False
        cotangents = _cotangents(outputs)
        expected, second = theirs(sample, cotangents, lambda t: t)
    except REFUSED:
        return False
    if twice and second is None:
        return False
    mine = ours(sample)
    my_leaves = _leaves(mine)
    made = _graded(_settled(_apply(form[1], mine), mine))
    if len(made) != len(outputs):
        raise Disagreement(f"{len(outputs)} differentiable outputs, got {len(made)}")
    given = [tensor(cotangent) for cotangent in cotangents]
    got = rg.autograd.grad(made, my_leaves, given, allow_unused=True, create_graph=twice)
    _judge(
        lambda wanted: same_gradients(wanted, got, within, "gradient"),
        expected,
        sample,
        lambda: theirs(_widened(sample), cotangents, widened)[0],
    )
    if twice:
        again = _second(rg, got, my_leaves, tensor) or (None,) * len(leaves)
        _judge(
            lambda wanted: same_gradients(wanted, again, within, "second gradient"),
            second,
            sample,
            lambda: theirs(_widened(sample), cotangents, widened)[1],
        )
    return True


def _second(library: Any, grads: Sequence[Any], leaves: Sequence[Any], made: Callable[[Any], Any]) -> Any:
    """Return the gradients of gradients at fixed cotangents; None if they depend on nothing."""
    further = [g for g in grads if g is not None and g.requires_grad]
    if not further:
        return None
    as_torch = [torch.empty(tuple(g.shape), dtype=getattr(torch, str(g.dtype).removeprefix("torch."))) for g in further]
    cotangents = [made(c) for c in _cotangents(as_torch, 11)]
    return library.autograd.grad(further, leaves, cotangents, allow_unused=True)


def jvp(entry: Entry, form: Form, sample: Sample, within: Within) -> bool:
    """Compare tangents of the outputs at fixed tangents of all differentiable inputs; False where torch has none.

    Raises:
        Disagreement: they differ.
    """
    tangents = _cotangents([leaf.detach() for leaf in _leaves(sample)], 13)
    try:
        expected = _tangents(torch, form[0], sample, tangents, torch.Tensor)
    except REFUSED:
        return False
    mine = ours(sample)
    got = _tangents(rg, form[1], mine, [tensor(t) for t in tangents], rg.Tensor)
    _judge(
        lambda wanted: same_gradients(wanted, got, within, "tangent"),
        expected,
        sample,
        lambda: _tangents(torch, form[0], _widened(sample), widened(list(tangents)), torch.Tensor),
    )
    return True


def _tangents(library: Any, function: Any, sample: Sample, tangents: Sequence[Any], kind: type) -> list[Any]:
    ad = library.autograd.forward_ad
    with ad.dual_level():
        waiting = iter(tangents)

        def dual(arg: Any) -> Any:
            if isinstance(arg, kind):
                return ad.make_dual(arg.detach(), next(waiting)) if arg.requires_grad else arg
            if type(arg) in (list, tuple):
                return type(arg)([dual(item) for item in arg])
            return arg

        input, *args = [dual(arg) for arg in sample.all]
        options = {name: dual(option) for name, option in sample.options.items()}
        made = Sample(input, tuple(args), options, sample.output)
        result = flat(_settled(_apply(function, made), made))
        duals = [one for one in result if isinstance(one, kind) and str(one.dtype).rpartition(".")[2][0] in "fc"]
        return [ad.unpack_dual(one).tangent for one in duals]


def vmap(entry: Entry, form: Form, sample: Sample, within: Within) -> bool:
    """Compare the op over a batch of its first tensor; False where torch does not vectorise it.

    Raises:
        Disagreement: they differ.
    """
    if not isinstance(sample.input, torch.Tensor):
        return False
    plain = sample.input.detach()
    batch = torch.stack([plain, plain * 0.75 if plain.dtype.is_floating_point or plain.is_complex() else plain])
    try:
        with torch.no_grad():
            expected = torch.vmap(lambda x: form[0](x, *sample.args, **sample.options))(batch)
    except REFUSED:
        return False
    mine = ours(sample)
    with rg.no_grad():
        got = rg.vmap(lambda x: form[1](x, *mine.args, **mine.options))(tensor(batch))
    same(expected, got, within, entry.draws(sample.options) or sample.output is not None)
    return True


def inplace(entry: Entry, form: Form, sample: Sample, within: Within) -> bool:
    """Compare what an in-place form leaves in its tensor, and its gradient; both libraries may refuse the sample.

    Raises:
        Disagreement: they differ.
    """
    theirs = copy.copy(sample)
    refused = False
    expected = None
    try:
        with torch.no_grad():
            expected = form[0](theirs.input.clone(), *theirs.args, **theirs.options)
    except REFUSED:
        refused = True
    mine = ours(sample)
    try:
        if form[1] is None:
            raise Disagreement("there is no such method")
        with rg.no_grad():
            got = form[1](mine.input.clone(), *mine.args, **mine.options)
    except REFUSED as error:
        if refused:
            return True
        raise Disagreement(f"refused: {_said(error)}") from None
    if refused:
        raise Disagreement("torch refuses it")
    changed = by_element(entry.info.name, mine, got)

    def wide() -> Any:
        with torch.no_grad():
            doubled = _widened(sample)
            return form[0](doubled.input.clone(), *doubled.args, **doubled.options)

    _judge(
        lambda wanted: same(by_element(entry.info.name, sample, wanted), changed, within, entry.draws(sample.options)),
        expected,
        sample,
        wide,
    )
    if _leaves(sample) and entry.info.supports_inplace_autograd and not entry.draws(sample.options):
        on_clones = tuple(
            (lambda input, *args, _made=one, **options: _made(input.clone(), *args, **options)) for one in form
        )
        gradient(entry, (on_clones[0], on_clones[1]), sample, within)
    return True


def session(entry: Entry, form: Form, sample: Sample, within: Within) -> bool:
    """Compare results and gradients of a session with torch's; False where torch refuses the sample.

    Raises:
        Disagreement: they differ.
    """
    with rg.Session():
        if not _leaves(sample) or entry.draws(sample.options):
            return value(entry, form, sample, within)
        return value(entry, form, sample, within) and gradient(entry, form, sample, within)


# ---- what is refused -------------------------------------------------------------------------------------------------


def error(entry: Entry, form: Form, given: Any) -> bool:
    """Hold raygrad to refuse an error input with the type that torch raises; False where torch takes it.

    Raises:
        Disagreement: it takes it, or raises another type.
    """
    sample = sample_of(given.sample_input)
    try:
        form[0](*sample.all, **sample.options)
    except Exception as raised:
        expected = raised
    else:
        return False
    mine = ours(sample)
    try:
        form[1](*mine.all, **mine.options)
    except Exception as raised:
        if not isinstance(raised, _builtin(type(expected))):
            raise Disagreement(f"{_said(expected)}; got {_said(raised)}") from None
        return True
    raise Disagreement(f"{_said(expected)}; got no error")


def refused(entry: Entry, form: Form, sample: Sample) -> bool:
    """Hold raygrad to refuse a dtype that torch refuses; False where torch takes it.

    Raises:
        Disagreement: it takes it.
    """
    try:
        form[0](*sample.all, **sample.options)
    except Exception as raised:
        expected = raised
    else:
        return False
    mine = ours(sample)
    try:
        form[1](*mine.all, **mine.options)
    except REFUSED:
        return True
    raise Disagreement(f"{_said(expected)}; got no error")


def _builtin(kind: type[BaseException]) -> type[BaseException]:
    """Return the builtin exception that torch's error is one of."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"


def attempt(compared: Callable[[], bool]) -> tuple[bool, str] | None:
    """Run one comparison.

    Returns:
        None if there was nothing to compare; else whether both agree, and what differs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return (True, "") if compared() else None
        except Disagreement as disagreement:
            return False, str(disagreement)
        except Untranslatable as reason:
            return False, f"no counterpart: {reason}"
        except Exception as error:
            return False, _said(error)
