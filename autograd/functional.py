"""`torch.autograd.functional`: vjp, jvp, vhp, hvp, `jacobian` and `hessian` of a function, computed by the engine at
given inputs.

They take a function of tensors that returns tensors, alone or in tuples, and return values. The composable transforms
of the same names in `raygrad.func` (`jacrev`, `jacfwd`, `hessian`), which return functions, are in `transforms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import public

from . import ops
from .core.modes import enable_grad
from .engine.engine import grad
from .tensor.tangent_levels import share_tangents
from .tensor.tensor import Tensor
from .transforms.common import InputAliases
from .transforms.jacobian import along_basis, jacfwd, one_by_one

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]
Results = list[Tensor | None]


# ---- what goes in and comes out --------------------------------------------------------------------------------------


def _as_tuple(given: Any, name: str, function: str) -> tuple[Tensors, bool]:
    """Return tensors as a tuple, and whether they were given as one.

    Raises:
        TypeError: something else is given.
    """
    several = isinstance(given, tuple)
    items: tuple[Any, ...] = cast("tuple[Any, ...]", given) if several else (given,)
    for index, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"the value at index {index} has type {type(item)}" if several else f"it has type {type(item)}"
            raise TypeError(f"The {name} of {function} must be either a Tensor or a tuple of Tensors, but {where}.")
    return items, several


def _vectors(v: Any, like: Tensors, name: str) -> Tensors:
    """Return the given vectors, checked; ones if none are given and a single element suffices.

    Raises:
        RuntimeError: there are none, too few, or of other shapes.
    """
    if v is None:
        if len(like) != 1 or like[0]._data.size != 1:
            raise AutogradError(f"The vector v can only be None if {name} a single Tensor with a single element.")
        return (ops.ones_as(like[0]),)
    given, _ = _as_tuple(v, "v", "functional")
    if len(given) != len(like):
        raise AutogradError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
    for index, (vector, tensor) in enumerate(zip(given, like, strict=True)):
        if vector.shape != tensor.shape:
            raise AutogradError(
                f"Entry {index} in v has invalid size: should be {list(tensor.shape)} but got {list(vector.shape)}."
            )
    return given


class _Evaluation:
    """The run of a function on aliases of its inputs, from which derivatives are taken.

    Attributes:
        inputs: the aliases; with `create_graph` they lead on to the inputs.
        outputs: the function's results.
    """

    def __init__(self, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, name: str) -> None:
        given, self.many_inputs = _as_tuple(inputs, "inputs", name)
        aliases = InputAliases()
        self._create_graph = create_graph
        self._strict = strict
        self.inputs = tuple([aliases.of(t if create_graph else share_tangents(t, t.detach())) for t in given])
        with enable_grad():
            result = func(*self.inputs)
        aliases.close()
        self.outputs, self.many_outputs = _as_tuple(result, "outputs of the user-provided function", name)
        if strict:
            for index, output in enumerate(self.outputs):
                if not output._requires_grad:
                    raise AutogradError(
                        f"Output {index} of the user-provided function does not require gradients. The outputs must be "
                        "computed in a differentiable manner from the input when running in strict mode."
                    )

    def pulled(self, outputs: Sequence[Tensor], grads: Sequence[Tensor], inputs: Tensors, record: bool) -> Results:
        """Return gradients of some outputs by some inputs, None where one is undefined; saved tensors are retained."""
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if o._requires_grad]
        if not pairs:
            return [None] * len(inputs)
        with enable_grad():
            found = grad([o for o, _ in pairs], inputs, [g for _, g in pairs], True, record, allow_unused=True)
        return list(found)

    def filled(self, found: Results, like: Sequence[Tensor], what: str, of: str = "") -> list[Tensor]:
        """Return gradients with zeros for undefined ones; `of` names what they are, if they are results.

        Raises:
            RuntimeError: in strict mode, where there is none, or where a result that is to be differentiated again is
                constant.
        """
        out: list[Tensor] = []
        for index, (gradient, tensor) in enumerate(zip(found, like, strict=True)):
            if gradient is None and self._strict:
                raise AutogradError(f"{what.format(index)} This is not allowed in strict mode.")
            if of and self._strict and self._create_graph and gradient is not None and not gradient._requires_grad:
                raise AutogradError(
                    f"The {of} of the user-provided function is independent of input {index}. This is not allowed in "
                    "strict mode when create_graph=True."
                )
            out.append(ops.zeros_as(tensor).detach() if gradient is None else gradient)
        return out

    def finished(self, tensors: Sequence[Tensor], many: bool) -> Any:
        """Return results in the form of the inputs, with a graph if `create_graph` asked for one."""
        kept = [t if self._create_graph else share_tangents(t, t.detach()) for t in tensors]
        return tuple(kept) if many else kept[0]

    def result(self) -> Any:
        """Return the function's result."""
        return self.finished(self.outputs, self.many_outputs)

    def gradient(self, name: str) -> list[Tensor]:
        """Return the gradients of the one output of one element, with their graph.

        Raises:
            RuntimeError: the function returned something else; or, in strict mode, an independence.
        """
        if self.many_outputs:
            raise AutogradError(f"The function given to {name} should return a single Tensor")
        if self.outputs[0]._data.size != 1:
            raise AutogradError(f"The Tensor returned by the function given to {name} should contain a single element")
        found = self.pulled(self.outputs, (ops.ones_as(self.outputs[0]),), self.inputs, True)
        return self.filled(found, self.inputs, _INDEPENDENT)


_INDEPENDENT = "The output of the user-provided function is independent of input {}."
_LINEAR = "The gradient of the user-provided function is independent of input {}."


# ---- products --------------------------------------------------------------------------------------------------------


@public
def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return `func(*inputs)` and the product of `v` with the Jacobian: gradients like the inputs.

    Args:
        func: takes tensors and returns a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: gradients like the outputs; may be left out for one output of one element.
        create_graph: results can be differentiated.
        strict: raise where an output does not depend on an input, instead of returning zeros.

    Raises:
        RuntimeError: `v` does not fit; or, if `strict`, an independence.
        TypeError: something else than tensors.
    """
    run = _Evaluation(func, inputs, create_graph, strict, "vjp")
    vectors = _vectors(v, run.outputs, "the user-provided function returns")
    found = run.pulled(run.outputs, vectors, run.inputs, create_graph)
    return run.result(), run.finished(run.filled(found, run.inputs, _INDEPENDENT, "jacobian"), run.many_inputs)


@public
def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return `func(*inputs)` and the product of the Jacobian with `v`, which is like the inputs; see `vjp`.

    It differentiates a backward, so that Functions need no jvp; `raygrad.func.jvp` uses forward mode.
    """
    run = _Evaluation(func, inputs, create_graph, strict, "jvp")
    vectors = _vectors(v, run.inputs, "the input to the user-provided function is")
    what = "Output {} is independent of the inputs."
    return run.result(), run.finished(
        _pushed(run, run.outputs, vectors, create_graph, what, "jacobian"), run.many_outputs
    )


def _pushed(
    run: _Evaluation, outputs: Sequence[Tensor], vectors: Tensors, create_graph: bool, what: str, of: str
) -> list[Tensor]:
    """Return the derivative of outputs along vectors: of the vjp at u, the derivative by u."""
    seeds = tuple([ops.zeros_as(output).detach() for output in outputs])
    for seed in seeds:
        seed._requires_grad = True
    turned = run.pulled(outputs, seeds, run.inputs, True)
    if of == "jacobian":
        run.filled(turned, run.inputs, _INDEPENDENT)
    live = [(g, vector) for g, vector in zip(turned, vectors, strict=True) if g is not None]
    found = run.pulled([g for g, _ in live], [vector for _, vector in live], seeds, create_graph)
    return run.filled(found, outputs, what, of)


@public
def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return `func(*inputs)`, one scalar, and the product of `v`, like the inputs, with its Hessian; see `vjp`."""
    run, gradient, vectors = _gradient(func, inputs, v, create_graph, strict, "vhp")
    found = run.pulled(gradient, vectors, run.inputs, create_graph)
    return run.result(), run.finished(run.filled(found, run.inputs, _LINEAR, "hessian"), run.many_inputs)


@public
def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return `func(*inputs)`, one scalar, and the product of its Hessian with `v`, which is like the inputs; see `vjp`.

    As `vhp`, which is faster, wherever the Hessian is symmetric.
    """
    run, gradient, vectors = _gradient(func, inputs, v, create_graph, strict, "hvp")
    return run.result(), run.finished(
        _pushed(run, gradient, vectors, create_graph, _LINEAR, "hessian"), run.many_inputs
    )


def _gradient(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[_Evaluation, list[Tensor], Tensors]:
    """Run a scalar function; return that run, its gradient with its graph, and the checked vectors."""
    run = _Evaluation(func, inputs, create_graph, strict, name)
    gradient = run.gradient(name)
    return run, gradient, _vectors(v, run.inputs, "the input to the user-provided function is")


# ---- matrices --------------------------------------------------------------------------------------------------------


@public
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func` at `inputs`.

    Args:
        func, inputs, create_graph, strict: as for `vjp`.
        vectorize: compute all rows (or columns) at once by `vmap`, which every Function in it must support.
        strategy: "reverse-mode", or "forward-mode", which needs `vectorize`.

    Returns:
        For each output (a tuple if the function returned one) and each input (a tuple if one is given) a tensor of
        shape `output.shape + input.shape`.

    Raises:
        RuntimeError: if `strict`, an output that does not depend on an input; `strict` together with `vectorize`.
        NotImplementedError: "forward-mode" without `vectorize`, or with `create_graph`.
        AssertionError: an unknown strategy.
    """
    _check_strategy(strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _by_columns(func, inputs)
    run = _Evaluation(func, inputs, create_graph, strict, "jacobian")
    rows: list[Any] = []
    for index, output in enumerate(run.outputs):
        what = f"Output {index} of the user-provided function is independent of input {{}}."

        def row(seed: Tensor, output: Tensor = output, what: str = what) -> tuple[Tensor, ...]:
            found = run.pulled((output,), (seed,), run.inputs, create_graph)
            return tuple(run.filled(found, run.inputs, what, "jacobian"))

        with enable_grad():
            blocks = along_basis(row, output) if vectorize else one_by_one(row, output)
            shaped = [ops.reshape(b, (*output.shape, *t.shape)) for b, t in zip(blocks, run.inputs, strict=True)]
        rows.append(run.finished(shaped, run.many_inputs))
    return tuple(rows) if run.many_outputs else rows[0]


def _check_strategy(strategy: str, create_graph: bool, strict: bool, vectorize: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got {strategy!r}')
    if strict and vectorize:
        raise AutogradError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together: set one of them to False"
        )
    if strategy == "forward-mode" and (create_graph or not vectorize):
        raise NotImplementedError(
            'jacobian: strategy="forward-mode" needs vectorize=True and create_graph=False; raygrad.func.jacfwd can be '
            "differentiated again"
        )


def _by_columns(func: Callable[..., Any], inputs: Any) -> Any:
    """Return the Jacobian by forward mode, all columns at once."""
    given, several = _as_tuple(inputs, "inputs", "jacobian")
    given = tuple([tensor.detach() for tensor in given])
    found = jacfwd(func, argnums=tuple(range(len(given))))(*given)
    if several:
        return found
    return tuple([block[0] for block in found]) if isinstance(found[0], tuple) else found[0]


@public
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function of one scalar output: a tensor for each pair of inputs; see `jacobian`.
    `raygrad.func.hessian` returns a function.

    Raises:
        RuntimeError: the function returns something else; otherwise as `jacobian`.
    """
    given, several = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*tensors: Tensor) -> Any:
        found = _Evaluation(func, tensors, True, strict, "hessian").gradient("hessian")
        return tuple(found) if several else found[0]

    return jacobian(gradient, given if several else given[0], create_graph, strict, vectorize, outer_jacobian_strategy)
