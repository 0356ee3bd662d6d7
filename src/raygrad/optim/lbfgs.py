"""The optimiser L-BFGS (Nocedal, 1980): steps along a direction that earlier gradients correct, with a line search.

It evaluates the loss many times a step, and decides by the losses: in a session each evaluation is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from raygrad.autograd import ops
from raygrad.autograd.core.modes import enable_grad, no_grad
from raygrad.autograd.dispatch.creation import zeros
from raygrad.autograd.tensor.tensor import Tensor

from .optimizer import Group, Optimizer, ParameterState, check_rates

SUFFICIENT, CURVATURE = 1e-4, 0.9
"""The constants of the strong Wolfe conditions: how much the loss has to fall, and how much of the slope may remain."""


class LinePoint(NamedTuple):
    """A point on the line that is searched."""

    at: float
    """How far along the direction."""
    loss: float
    grad: Tensor
    """The gradient there, flat."""
    slope: float
    """The derivative along the direction."""


class LBFGS(Optimizer):
    """Moves all parameters together by a quasi-Newton method. `step` needs a closure, and evaluates it many times.

    Args:
        params: the tensors; one group of them.
        lr: the length of a step along the direction; with a line search, the first length that is tried.
        max_iter: iterations of one step.
        max_eval: evaluations of one step; a quarter more than `max_iter` by default.
        tolerance_grad: stops where no element of the gradient is greater.
        tolerance_change: stops where neither the parameters nor the loss change by more.
        history_size: earlier iterations that correct the direction.
        line_search_fn: None, or "strong_wolfe".

    Raises:
        ValueError: a negative rate, a rate of several elements, or more than one group.
        RuntimeError: in `step`: another line search.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_rates({"learning rate": float(lr)})
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        """Parameters are moved together, by `step`."""
        raise NotImplementedError("LBFGS moves all parameters together: call step(closure)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move the parameters, by up to `max_iter` iterations, and return the loss before.

        Args:
            closure: clears the gradients, evaluates the model, calls `backward` and returns the loss.

        Raises:
            TypeError: no closure.
            RuntimeError: the line search is not known.
        """
        if closure is None:
            raise TypeError("LBFGS evaluates the loss several times a step: call step(closure)")
        self._stepped = True
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        with no_grad():
            first = self._iterate(group, closure)
        recorder = self._recorder()
        if recorder is not None:
            recorder.submit()
        return first

    def _iterate(self, group: Group, closure: Callable[[], Any]) -> Any:
        kept = self.state.setdefault(group["params"][0], ParameterState())
        kept.setdefault("func_evals", 0)
        kept.setdefault("n_iter", 0)
        first = _evaluated(closure)
        loss, grad = float(first), self._flat_grad()
        evaluations, small = 1, group["tolerance_grad"]
        kept["func_evals"] += 1
        if _greatest(grad) <= small:
            return first
        lr = float(group["lr"])
        for iteration in range(1, group["max_iter"] + 1):
            kept["n_iter"] += 1
            direction = self._direction(kept, grad, group["history_size"])
            length = min(1.0, 1.0 / float(grad.abs().sum())) * lr if kept["n_iter"] == 1 else lr
            kept.update(d=direction, t=length, prev_flat_grad=grad, prev_loss=loss)
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            before, used = loss, 0
            if group["line_search_fn"] is not None:
                found, used = self._search(closure, LinePoint(length, loss, grad, slope), direction, group, evaluations)
                length, loss, grad = found.at, found.loss, found.grad
                kept["t"] = length
                self._move(length, direction)
            else:
                self._move(length, direction)
                if iteration != group["max_iter"]:  # what nobody looks at any more
                    loss, grad, used = float(_evaluated(closure)), self._flat_grad(), 1
            evaluations += used
            kept["func_evals"] += used
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or _greatest(grad) <= small
                or _greatest(direction * length) <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _direction(self, kept: ParameterState, grad: Tensor, most: int) -> Tensor:
        """Return the direction of the next iteration, by what the last ones showed of the curvature."""
        if kept["n_iter"] == 1:
            kept.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -grad
        dirs, steps, ro = kept["old_dirs"], kept["old_stps"], kept["ro"]
        change, step = grad - kept["prev_flat_grad"], kept["d"] * kept["t"]
        curvature = change.dot(step)
        if float(curvature) > 1e-10:
            if len(dirs) == most:
                for history in (dirs, steps, ro):
                    history.pop(0)
            dirs.append(change)
            steps.append(step)
            ro.append(1.0 / curvature)
            kept["H_diag"] = curvature / change.dot(change)
        al = kept.setdefault("al", [None] * most)
        rest = -grad
        for i in reversed(range(len(dirs))):
            al[i] = steps[i].dot(rest) * ro[i]
            rest = rest - dirs[i] * al[i]
        rest = rest * kept["H_diag"]
        for i in range(len(dirs)):
            rest = rest + steps[i] * (al[i] - dirs[i].dot(rest) * ro[i])
        return rest

    def _search(
        self, closure: Callable[[], Any], start: LinePoint, direction: Tensor, group: Group, evaluations: int
    ) -> tuple[LinePoint, int]:
        """Return where on the line from here the strong Wolfe conditions hold, or nearly, and how many evaluations that
        took. `start` is the point here, with the first length to try."""
        values = [param.detach().clone() for param in group["params"]]

        def at(length: float) -> LinePoint:
            self._move(length, direction)
            loss, grad = float(_evaluated(closure)), self._flat_grad()
            for param, value in zip(group["params"], values, strict=True):
                self.assign(param, value)
            return LinePoint(length, loss, grad, float(grad.dot(direction)))

        here = start._replace(at=0.0)
        most = group["max_eval"] - evaluations
        return strong_wolfe(at, here, start.at, _greatest(direction), group["tolerance_change"], most)

    # ---- parameters as one vector ------------------------------------------------------------------------------------

    def _flat_grad(self) -> Tensor:
        parts: list[Tensor] = []
        for param in self.param_groups[0]["params"]:
            grad = param.grad
            parts.append(_flat(zeros(param.shape, dtype=param.dtype, device=param.device) if grad is None else grad))
        return ops.cat(parts).detach()

    def _move(self, length: float, direction: Tensor) -> None:
        start = 0
        for param in self.param_groups[0]["params"]:
            pairs = param.dtype.kind == "c"
            stop = start + param.numel() * (1 + pairs)
            part = direction[start:stop].reshape((*param.shape, 2) if pairs else param.shape)
            self.assign(param, param.add(ops.view_as_complex(part) if pairs else part, alpha=length))
            start = stop


def _evaluated(closure: Callable[[], Any]) -> Any:
    with enable_grad():
        return closure()


def _flat(tensor: Tensor) -> Tensor:
    return (ops.view_as_real(tensor) if tensor.dtype.kind == "c" else tensor).reshape(-1)


def _greatest(flat: Tensor) -> float:
    return float(flat.abs().max())


# ---- the line search -------------------------------------------------------------------------------------------------


def strong_wolfe(
    evaluate: Callable[[float], LinePoint], here: LinePoint, length: float, greatest: float, tolerance: float, most: int
) -> tuple[LinePoint, int]:
    """Return a point on a line at which the strong Wolfe conditions hold, or the best of those seen, and how many were.

    Args:
        evaluate: returns the point at a length.
        here: where the line begins.
        length: the first to try.
        greatest: element of the direction.
        tolerance: below which two points are the same.
        most: points after the first.
    """
    new, previous, seen = evaluate(length), here, 1
    while seen <= most:
        if _too_high(new, here) or (seen > 2 and new.loss >= previous.loss):
            break
        if abs(new.slope) <= -CURVATURE * here.slope:
            return new, seen
        if new.slope >= 0:
            break
        bounds = (new.at + 0.01 * (new.at - previous.at), new.at * 10)
        previous, new = new, evaluate(_cubic_minimum(previous, new, bounds))
        seen += 1
    else:
        previous = here
    return _zoomed(evaluate, here, [previous, new], greatest, tolerance, most, seen)


def _zoomed(
    evaluate: Callable[[float], LinePoint],
    here: LinePoint,
    ends: list[LinePoint],
    greatest: float,
    tolerance: float,
    most: int,
    seen: int,
) -> tuple[LinePoint, int]:
    """Return what `strong_wolfe` does, from two ends with such a point between them."""
    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    stuck = False
    while seen <= most and abs(ends[1].at - ends[0].at) * greatest >= tolerance:
        length, stuck = _kept_apart(_cubic_minimum(ends[0], ends[1]), ends, stuck)
        new = evaluate(length)
        seen += 1
        if _too_high(new, here) or new.loss >= ends[low].loss:
            ends[high] = new
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        done = abs(new.slope) <= -CURVATURE * here.slope
        if not done and new.slope * (ends[high].at - ends[low].at) >= 0:
            ends[high] = ends[low]
        ends[low] = new
        if done:
            break
    return ends[low], seen


def _too_high(new: LinePoint, here: LinePoint) -> bool:
    return new.loss > here.loss + SUFFICIENT * new.at * here.slope


def _kept_apart(length: float, ends: Sequence[LinePoint], stuck: bool) -> tuple[float, bool]:
    """Return a length that is not too near to an end twice in a row, and whether it is near to one this time."""
    least, greatest = sorted([end.at for end in ends])
    apart = 0.1 * (greatest - least)
    if min(greatest - length, length - least) >= apart:
        return length, False
    if not stuck and least < length < greatest:
        return length, True
    return (greatest - apart if abs(length - greatest) < abs(length - least) else least + apart), False


def _cubic_minimum(first: LinePoint, second: LinePoint, bounds: tuple[float, float] | None = None) -> float:
    """Return where the cubic polynomial through two points, with their slopes, is least within bounds: by default
    between them. Without a minimum, the middle."""
    least, greatest = bounds or sorted([first.at, second.at])
    if first.at > second.at:
        first, second = second, first
    gap = second.at - first.at
    bend = first.slope + second.slope - 3 * (second.loss - first.loss) / gap
    square = bend * bend - first.slope * second.slope
    if not square >= 0:
        return (least + greatest) / 2
    root = math.sqrt(square)
    found = second.at - gap * ((second.slope + root - bend) / (second.slope - first.slope + 2 * root))
    return min(max(found, least), greatest)
