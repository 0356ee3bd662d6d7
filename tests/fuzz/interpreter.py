"""Runs a random program with one library, and writes down all that can be seen of it.

What is left of a run is plain data. The program stops at its first error. `facts` say what a run
went through that `exclusions` asks about; they are learned from the library's tensors, never from a comparison.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .aliasing import CHANGING
from .functions import SAVED, make_functions
from .programs import Program, Step, values

Log = Callable[[str, Any], None]

ANGULAR = {"sin", "cos", "sin_"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What can be seen of a tensor after the program."""

    value: np.ndarray[Any, Any]
    requires_grad: bool
    is_leaf: bool
    output_nr: int
    retains_grad: bool
    version: int
    grad: np.ndarray[Any, Any] | None
    grad_requires_grad: bool


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run left.

    Attributes:
        tensors: every tensor of the program, in order; an error where a tensor cannot be looked at.
        log: what hooks and Functions were given: name, value.
        undefined: for each call of grad(), which of its results were None.
        parts: the numbers of the tensors that chunk, split and unbind gave.
        gradients: the numbers of those that are gradients, or look at the memory of one.
        error: what ended it, and in which step; None if nothing did.
        facts: what it went through.
        angle: the greatest number of which a sine or cosine was taken: it has so much fewer digits.
    """

    tensors: list[Seen | Exception] = field(default_factory=list)
    log: list[tuple[str, Any]] = field(default_factory=list)
    undefined: list[list[bool]] = field(default_factory=list)
    parts: set[int] = field(default_factory=set)
    gradients: set[int] = field(default_factory=set)
    error: tuple[BaseException, int] | None = None
    facts: set[str] = field(default_factory=set)
    angle: float = 1.0


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor's value as an array of its own."""
    return np.array(tensor.detach().resolve_conj().numpy(force=True) if _is_torch(tensor) else tensor.detach().numpy())


def _is_leaf(tensor: Any) -> bool:
    try:
        return tensor.is_leaf
    except RuntimeError:  # a view whose base was changed
        return False


def _is_dense(tensor: Any) -> bool:
    steps = sorted((step, extent) for step, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1)
    return all(step == math.prod(extent for _, extent in steps[:i]) for i, (step, _) in enumerate(steps))


def _memory(tensor: Any) -> int:
    """Return what tells whose memory a tensor looks at, also where it is a detached alias."""
    return tensor.untyped_storage().data_ptr() if _is_torch(tensor) else id(tensor)


def _is_users(node: Any) -> bool:
    """Tell whether a node of torch's is that of a custom Function."""
    return any(kind.__name__ == "BackwardCFunction" for kind in type(node).__mro__)


def _is_expanded(tensor: Any) -> bool:
    """Tell whether several elements of one of torch's tensors share a place."""
    return _is_torch(tensor) and 0 in [
        step for step, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1
    ]


def plain(value: Any) -> Any:
    """Return a logged value as plain data of its own."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if value is None else array_of(value)


def _is_torch(tensor: Any) -> bool:
    return type(tensor).__module__.startswith("torch")


def seen(tensor: Any, first_version: int) -> Seen:
    """Return what can be seen of a tensor; in a session, waits for it."""
    grad = tensor.grad
    return Seen(
        value=array_of(tensor),
        requires_grad=tensor.requires_grad,
        is_leaf=tensor.is_leaf,
        output_nr=tensor.output_nr,
        retains_grad=tensor.retains_grad,
        version=tensor._version - first_version,
        grad=None if grad is None else array_of(grad),
        grad_requires_grad=grad is not None and grad.requires_grad,
    )


def _seen_or_error(tensor: Any, first_version: int) -> Seen | Exception:
    try:
        return seen(tensor, first_version)
    except Exception as error:  # a view whose base was changed says so when it is next used
        return error


def run(
    program: Program,
    T: Any,
    *,
    log: Log | None = None,
    logged: Callable[[], list[tuple[str, Any]]] | None = None,
    stop_after: int | None = None,
    open_session: Callable[[], None] | None = None,
) -> Outcome:
    """Run a program with the library `T` (torch or raygrad), up to its first error.

    Args:
        log: where hooks and Functions report to; by default the outcome's own log.
        logged: waits for all that the program started, and returns what was reported.
        stop_after: the number of the last step to run.
        open_session: called before step `begin`.
    """
    outcome = Outcome()
    machine = Machine(T, log or (lambda name, value: outcome.log.append((name, plain(value)))), outcome.facts)
    machine.stop_after = stop_after
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gradients of non-leaves are read, graphs of gradients are stored
        before = T.is_grad_enabled()
        T.manual_seed(7)
        try:
            machine.start(program)
            begin = program.begin if open_session is not None else 0
            machine.do(program.steps[:begin])
            if open_session is not None:
                open_session()
            machine.do(program.steps[begin:])
            if logged is not None:
                outcome.log = logged()
        except Exception as error:  # the outcome that is to be compared
            outcome.error = (error, machine.count)
        finally:
            T.set_grad_enabled(before)
        outcome.undefined = machine.undefined
        if outcome.error is None:
            pairs = zip(machine.tensors, machine.first_versions, strict=True)
            outcome.tensors = [_seen_or_error(tensor, first) for tensor, first in pairs]
            outcome.parts, outcome.gradients, outcome.angle = machine.parts, machine.gradients, machine.angle
            unread = [tensor for tensor in outcome.tensors if isinstance(tensor, Exception)]
            if stop_after is not None and unread:  # in a session, what nobody reads does not run
                outcome.error = (unread[0], machine.count)
    return outcome


class Machine:
    """The tensors of a running program, and how each kind of step changes them."""

    def __init__(self, T: Any, log: Log, facts: set[str]) -> None:
        self.T = T
        self.log = log
        self.facts = facts
        self.tensors: list[Any] = []
        self.functions = make_functions(T, log)
        self.count = -1
        self.stop_after: int | None = None
        self.angle = 1.0
        self.undefined: list[list[bool]] = []
        self.hooked: set[int] = set()
        """The memory of views that have hooks."""
        self.used: set[int] = set()
        """The tensors that a step has used, by identity: one may have several numbers."""
        self.passed: set[int] = set()
        """The non-leaves that a Function was given and saved, by identity."""
        self.hooked_nodes: list[Any] = []
        """The nodes that have hooks, or whose outputs have."""
        self.folded: set[int] = set()
        """The products that are views of what was computed transposed, by identity."""
        self.gradients: set[int] = set()
        self.lent: set[int] = set()
        """The memory of gradients that are views."""
        self.shared: set[int] = set()
        """The memory that several gradients of one call have."""
        self.changed: set[int] = set()
        """The memory of what was changed in place."""
        self.expanded: set[int] = set()
        """The views of expanded tensors, by identity."""
        self.aliased: set[int] = set()
        """The memory of which there are detached aliases."""
        self.behind: set[int] = set()
        """The memory that was changed through one."""
        self.taken: set[int] = set()
        """The memory that `.data` showed."""
        self.unsure: set[int] = set()
        """The memory of what was reshaped to a copy or after a change, and of the result."""
        self.parts: set[int] = set()
        """The numbers of what chunk, split and unbind gave."""
        self.first_versions: list[int] = []
        """The version that each tensor had when it was made: how often an op wrote to it before is its own affair."""

    def start(self, program: Program) -> None:
        for leaf in program.leaves:
            array = leaf.values()
            self.tensors.append(self.T.tensor(array, requires_grad=leaf.requires_grad and array.dtype.kind in "fc"))
            self.first_versions.append(0)

    def do(self, steps: Iterable[Step]) -> None:
        for kind, *args in steps:
            self.count += 1
            if self.stop_after is not None and self.count > self.stop_after:
                return
            made = getattr(self, "do_" + kind)(*args)
            if made is not None:
                new = list(made) if isinstance(made, list | tuple) else [made]
                memories = {_memory(self.tensors[number]) for number in self.gradients}
                for number, tensor in enumerate(new, len(self.tensors)):
                    if kind in ("grad", "take_grad") or _memory(tensor) in memories:
                        self.gradients.add(number)
                if kind == "grad":
                    self._note_shared(new)
                if kind == "views":
                    self.parts.update(range(len(self.tensors), len(self.tensors) + len(new)))
                again = [i for i, tensor in enumerate(new) if any(tensor is self.tensors[part] for part in self.parts)]
                self.parts.update(len(self.tensors) + i for i in again)
                self.first_versions += [tensor._version for tensor in new]
                self.tensors += new
            self._note_gradients()

    def _note_shared(self, gradients: list[Any]) -> None:
        """Note the memory that several gradients of one call have, each of which is another tensor."""
        of: dict[int, Any] = {}
        for gradient in gradients:
            if of.setdefault(_memory(gradient), gradient) is not gradient:
                self.shared.add(_memory(gradient))

    def _note_gradients(self) -> None:
        """Note the memory of torch's gradients that are views, and those that require grad as views do."""
        if self.T.__name__ == "torch":
            for gradient in [self.tensors[number] for number in self.gradients]:
                if gradient._base is not None:
                    self.lent.add(_memory(gradient))
                    if gradient.requires_grad and _is_leaf(gradient):
                        self.facts.add("a gradient that is a view requires grad")
            for tensor in self.tensors:
                if tensor.requires_grad and not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
                    self.facts.add("an integer tensor requires grad")

    def __getitem__(self, number: Any) -> Any:
        """Return the tensor of that number, or the number that ("number", x) is."""
        if isinstance(number, tuple):
            return number[1]
        number %= len(self.tensors)
        self.used.add(id(self.tensors[number]))
        return self.tensors[number]

    # ---- ops ---------------------------------------------------------------------------------------------------------

    def do_unary(self, name: str, t: int) -> Any:
        self._note_angle(name, self[t])
        return getattr(self.T, name)(self[t])

    def _note_angle(self, name: str, tensor: Any) -> None:
        if name in ANGULAR and self.T.__name__ == "torch":
            angles = np.abs(array_of(tensor))
            self.angle = max(self.angle, float(angles[np.isfinite(angles)].max(initial=0.0)))

    def do_binary(self, name: str, t: int, u: Any) -> Any:
        one, other = self[t], self[u]
        if name == "atan2":  # zeros without sign: which of 0.0 and -0.0 is the greater is the processor's affair
            one, other = one + 0.0, other + 0.0
        if getattr(other, "dtype", one.dtype) != one.dtype:
            self.facts.add("two dtypes")
        made = getattr(self.T, name)(one, other)
        self._note_layout(made, one, other)
        return made

    def do_reduce(self, name: str, t: int, dim: Any, keepdim: bool) -> Any:
        operation = getattr(self.T, name)
        made = operation(self[t]) if dim is None and not keepdim else operation(self[t], dim, keepdim=keepdim)
        if name == "prod" and dim is None and int((self[t].detach() == 0).sum()) > 1:
            self.facts.add("a product of several zeros")
        return made

    def do_along(self, name: str, t: int, dim: int) -> Any:
        return getattr(self.T, name)(self[t], dim)

    def do_matmul(self, t: int, u: int) -> Any:
        if self[t].dtype != self[u].dtype and not self[t].numel() * self[u].numel():
            self.facts.add("no elements of two dtypes multiplied")
        made = self.T.matmul(self[t], self[u])
        if made._base is not None:
            self.folded.add(id(made))
        return made

    def do_join(self, name: str, ts: tuple[int, ...], dim: int) -> Any:
        return getattr(self.T, name)([self[t] for t in ts], dim)

    def do_where(self, t: int, limit: float, u: Any, v: Any) -> Any:
        condition = self[t] > limit
        made = self.T.where(condition, self[u], self[v])
        self._note_layout(made, condition, self[u], self[v])
        return made

    def _note_layout(self, made: Any, *operands: Any) -> None:
        """Note a result that lies as its first operand does, where NumPy finds no order that suits them all."""
        if self.T.__name__ != "torch" or made.is_contiguous():
            return
        arrays: list[Any] = [one.detach().numpy() for one in operands if isinstance(one, self.T.Tensor)]
        iterator: Any = np.nditer([*arrays, None], ["zerosize_ok"], order="K")
        steps = zip(iterator.operands[-1].strides, made.stride(), made.shape, strict=True)
        if any(one != other * iterator.operands[-1].itemsize for one, other, extent in steps if extent > 1):
            self.facts.add("laid out as the first operand")

    def _note_reshaping(self, tensor: Any) -> None:
        if "laid out as the first operand" in self.facts and not tensor.is_contiguous():
            self.facts.add("reshaped as it lies")

    def do_getitem(self, t: int, index: Any) -> Any:
        made = self[t][self.index(index, self[t])]
        self._note_expanded(self[t], made)
        return made

    def index(self, spec: Any, tensor: Any) -> Any:
        """Return an index as the library takes it."""
        items = [self._index_item(item, tensor) for item in spec]
        return items[0] if len(items) == 1 else tuple(items)

    def _index_item(self, item: Any, tensor: Any) -> Any:
        if item == "...":
            return Ellipsis
        if not isinstance(item, tuple):
            return item
        name, *args = item
        if name == "slice":
            return slice(*args)
        if name == "mask":
            return tensor.detach() > args[0]
        return self.T.tensor(np.array(args[0], dtype="int64"))

    # ---- views and changes in place ----------------------------------------------------------------------------------

    def do_view(self, name: str, t: int, args: tuple[Any, ...]) -> Any:
        tensor = self[t]
        if name == "data":
            self.taken.add(_memory(tensor))
        if name == "detach":
            self.aliased.add(_memory(tensor))
        if name in ("view", "reshape", "flatten"):
            self._note_reshaping(tensor)
        member = getattr(tensor, name)
        made = member(*args) if callable(member) else member
        self._note_expanded(tensor, *(made if isinstance(made, list | tuple) else [made]))
        if name in ("reshape", "flatten") and (_memory(made) != _memory(tensor) or _memory(tensor) in self.changed):
            self.unsure.update((_memory(made), _memory(tensor)))
        return made

    do_views = do_view

    def do_inplace(self, name: str, t: int, args: tuple[Any, ...]) -> None:
        tensor = self[t]
        self._note_change(tensor)
        operands = [self[arg[1]] if isinstance(arg, tuple) else arg for arg in args]
        self._note_overlap(tensor, operands)
        self._note_angle(name, tensor)
        getattr(tensor, name)(*operands)

    def do_masked_fill_(self, t: int, limit: float, x: float) -> None:
        tensor = self[t]
        self._note_change(tensor)
        tensor.masked_fill_(tensor.detach() > limit, x)

    def do_setitem(self, t: int, index: Any, u: Any) -> None:
        tensor = self[t]
        self._note_change(tensor)
        index, value = self.index(index, tensor), self[u]
        self._note_overlap(tensor, [value])
        tensor[index] = value

    def do_detach_(self, t: int) -> None:
        if id(self[t]) in self.passed:
            self.facts.add("an argument of a Function detached")
        if t % len(self.tensors) in self.gradients and self[t]._base is not None:
            self.facts.add("a gradient that is a view detached")
        if id(self[t]) in self.folded:
            self.facts.add("a product that is a view detached")
        self[t].detach_()

    def do_data(self, t: int, u: int) -> None:
        used = id(self.tensors[t % len(self.tensors)]) in self.used
        if self[t].shape != self[u].shape and (used or not _is_leaf(self[t])):
            self.facts.add("data of another shape")
        if self[t]._base is not None:
            self.facts.add("the data of a view exchanged")
        self[t].data = self[u].data

    def _note_change(self, tensor: Any) -> None:
        self.facts.add("changed")
        (self.facts.add if tensor._base is not None else self.facts.discard)("a view changed last")
        if _memory(tensor) in self.unsure:
            self.facts.add("changed after it was reshaped to a copy, or after a change")
        self.changed.add(_memory(tensor))
        if _memory(tensor) in self.aliased and not tensor.requires_grad:
            self.behind.add(_memory(tensor))
        if _memory(tensor) in self.taken:
            self.facts.add("what .data showed changed")
        if _memory(tensor) in self.hooked:
            self.facts.add("a hooked view changed")
        if _memory(tensor) in self.shared:
            self.facts.add("the memory of several gradients changed")
        if _memory(tensor) in self.lent:
            self.facts.add("the memory of a gradient that is a view changed")
        if tensor.numel() and (_is_expanded(tensor) or id(tensor) in self.expanded):
            self.facts.add("an expanded tensor changed")

    def _note_expanded(self, tensor: Any, *views: Any) -> None:
        """Note views that look at an expanded tensor, or at what looks at one."""
        if _is_expanded(tensor) or id(tensor) in self.expanded:
            self.expanded.update(id(view) for view in views if _memory(view) == _memory(tensor))

    def _note_overlap(self, tensor: Any, operands: list[Any]) -> None:
        """Note an operand that shares elements with a tensor, not each with its own, one of which has gaps."""
        for operand in operands:
            if self.T.__name__ == "torch" and isinstance(operand, self.T.Tensor):
                one, other = (t.detach().numpy() for t in (tensor, operand))
                same = all(
                    getattr(tensor, name)() == getattr(operand, name)() for name in ("data_ptr", "stride", "size")
                )
                if not same and np.shares_memory(one, other) and not (_is_dense(tensor) and _is_dense(operand)):
                    self.facts.add("an operand with gaps overlaps what is changed")

    # ---- Functions and hooks -----------------------------------------------------------------------------------------

    def do_apply(self, name: str, ts: tuple[int, ...]) -> Any:
        self.facts.add(name)
        if name == "flat":
            self._note_reshaping(self[ts[0]])
        self.passed.update(id(self[ts[i]]) for i in SAVED.get(name, ()) if not _is_leaf(self[ts[i]]))
        if name in CHANGING:
            self._note_change(self[ts[0]])
            changed = self[ts[0]]
            if name == "overwrite_" and changed._base is not None and changed._base.requires_grad:
                self.facts.add("a view overwritten by a Function")
            other = self[ts[-1]]
            if other is not changed:
                self._note_overlap(changed, [other])
                if 1 in changed.shape and _memory(changed) == _memory(other):
                    self.facts.add("arguments of one memory with extents of one")
            if ts[0] % len(self.tensors) in self.gradients:
                self.facts.add("a gradient changed by a Function")
        return self.functions[name](*[self[t] for t in ts])

    def do_hook(self, kind: str, t: int) -> None:
        if self._is_part(t):
            return
        self._note_hook(self[t])
        log, name = self.log, f"hook {self.count}"
        if kind == "double":
            self[t].register_hook(lambda g: None if g is None else g * 2)
        elif kind == "clone":
            self[t].register_hook(lambda g: None if g is None else g.clone())
        else:

            def report(g: Any) -> None:
                log(name, g)

            self[t].register_hook(report)

    def _is_part(self, t: int) -> bool:
        """Tell whether a tensor is one of several views: torch has one node for them all, whose hooks are called for
        gradients of any."""
        return t % len(self.tensors) in self.parts

    def _note_hook(self, tensor: Any) -> None:
        # asked first, a view of what was changed finds its place; while nothing is recorded torch dies of a hook else
        _is_leaf(tensor)
        self.hooked_nodes.append(tensor.grad_fn)
        if tensor._base is not None:
            self.hooked.add(_memory(tensor))
            if _memory(tensor) in self.behind:  # what eagerly nobody notices
                self.facts.add("a hooked view changed")

    def do_node_hook(self, kind: str, t: int) -> None:
        node = self[t].grad_fn
        if node is None or self._is_part(t):
            return
        self._note_hook(self[t])
        log, name = self.log, f"{kind} {self.count}"

        def pre(gradients: Any) -> Any:
            log(name, list(gradients))
            return tuple(None if g is None else g * 2 for g in gradients) if kind == "pre_double" else None

        def post(inputs: Any, outputs: Any) -> Any:
            log(name, list(outputs))
            return tuple(None if g is None else g * 2 for g in inputs) if kind == "post_double" else None

        if kind.startswith("pre"):
            node.register_prehook(pre)
        else:
            node.register_hook(post)

    def do_post_accumulate(self, t: int) -> None:
        log, name = self.log, f"accumulated {self.count}"

        def report(leaf: Any) -> None:
            log(name, leaf.grad)

        self[t].register_post_accumulate_grad_hook(report)

    def do_retain_grad(self, t: int) -> None:
        self[t].retain_grad()

    def do_requires_grad_(self, t: int, flag: bool) -> None:
        self[t].requires_grad_(flag)

    # ---- modes -------------------------------------------------------------------------------------------------------

    def do_no_grad(self, steps: tuple[Step, ...]) -> None:
        with self.T.no_grad():
            self.do(steps)

    def do_enable_grad(self, steps: tuple[Step, ...]) -> None:
        with self.T.enable_grad():
            self.do(steps)

    def do_set_grad_enabled(self, flag: bool) -> None:
        self.T.set_grad_enabled(flag)

    # ---- passes ------------------------------------------------------------------------------------------------------

    def seed_of(self, root: Any) -> Any:
        """Return the gradient that a pass starts with at a root: None where it may be left out."""
        if not root.shape:
            return None
        dtype = str(root.dtype).removeprefix("torch.")
        return self.T.tensor(values(tuple(root.shape), dtype, len(root.shape)))

    def do_backward(self, ts: tuple[int, ...], options: dict[str, Any]) -> None:
        roots, named = [self[t] for t in ts], dict(options)
        if "inputs" in named:
            named["inputs"] = [self[u] for u in named["inputs"]]
            kept = named.get("retain_graph") or named.get("create_graph")
            for u in named["inputs"]:
                if not u.is_leaf and (self._is_hooked(u) or _is_users(u.grad_fn)):
                    self.facts.add("backward to a non-leaf whose producer shows that it runs")
                elif not u.is_leaf and not kept:
                    self.facts.add("backward to a non-leaf")
        self._note_graph(named)
        self.T.autograd.backward(roots, [self.seed_of(root) for root in roots], **named)

    def do_grad(self, ts: tuple[int, ...], us: tuple[int, ...], options: dict[str, Any]) -> list[Any]:
        roots, wanted = [self[t] for t in ts], [self[u] for u in us]
        if len(wanted) > 1 and any(not u.is_leaf and self._is_hooked(u) for u in wanted):
            self.facts.add("grad of a hooked non-leaf among others")
        self._note_graph(options)
        found = self.T.autograd.grad(roots, wanted, [self.seed_of(root) for root in roots], **options)
        self.undefined.append([gradient is None for gradient in found])
        return [self.or_zeros(gradient, tensor) for gradient, tensor in zip(found, wanted, strict=True)]

    def _is_hooked(self, tensor: Any) -> bool:
        return any(node is tensor.grad_fn for node in self.hooked_nodes)

    def _note_graph(self, options: dict[str, Any]) -> None:
        if options.get("create_graph"):
            self.facts.add("create_graph")

    def or_zeros(self, gradient: Any, tensor: Any) -> Any:
        return self.T.zeros_like(tensor.detach()) if gradient is None else gradient

    def do_clear(self, t: int) -> None:
        self[t].grad = None

    def do_zero_grad(self, t: int) -> None:
        gradient = self[t].grad
        if gradient is not None:
            gradient.zero_()

    def do_take_grad(self, t: int) -> Any:
        return self.or_zeros(self[t].grad, self[t])
