"""What raygrad means to do otherwise than torch: programs that come to it are not compared.

Rules of this file: each predicate names the behaviour that SEMANTICS marks [DIVERGE], and looks at the program and at
what torch's run went through, never at raygrad's. A difference that no line here foresees is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .aliasing import PASSING
from .interpreter import Outcome
from .programs import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A meant difference.

    Attributes:
        id: the behaviour of SEMANTICS that it is.
        why: what raygrad does instead.
        applies: whether a program comes to it, given torch's outcome.
    """

    id: str
    why: str
    applies: Callable[[Program, Outcome], bool]


def _torch_says(words: str) -> Callable[[Program, Outcome], bool]:
    def says(program: Program, outcome: Outcome) -> bool:
        errors: list[BaseException] = [t for t in outcome.tensors if isinstance(t, Exception)]
        if outcome.error is not None:
            errors.append(outcome.error[0])
        return any(words in str(error) for error in errors)

    return says


def _fact(name: str) -> Callable[[Program, Outcome], bool]:
    return lambda program, outcome: name in outcome.facts


_VIEW = _torch_says("Can't detach views in-place")

EXCLUSIONS = (
    Exclusion(
        id="EN-12",
        why="the producer of a non-leaf among `inputs` of backward() is not run: no hook of it, no freed buffer",
        applies=_fact("backward to a non-leaf"),
    ),
    Exclusion(
        id="HK-08",
        why="grad() returns the value after the hooks of a non-leaf, also when gradient is needed further back",
        applies=_fact("grad of a non-leaf among others"),
    ),
    Exclusion(
        id="BW-18",
        why="a gradient that depends on a saved intermediate refuses to be differentiated again",
        applies=lambda program, outcome: {"create_graph", "intermediate"} <= outcome.facts,
    ),
    Exclusion(
        id="MD-01",
        why="a view made with recording off, or before its base was made to require grad, requires none; torch's says "
        "that it does, and gets none",
        applies=_fact("a leaf that is a view requires grad"),
    ),
    Exclusion(
        id="OU-15",
        why="only what a custom Function returned may not be changed later; so may views, and gradients, made with "
        "recording off",
        applies=_torch_says("modified inplace with grad mode enabled. Given that this use case is ambiguous"),
    ),
    Exclusion(
        id="HK-11",
        why="hooks on a view whose memory is changed later stay on the old version and fire; torch drops them",
        applies=_fact("a hooked view changed"),
    ),
    Exclusion(
        id="BW-15",
        why="an expanded tensor is read-only; torch lets it be filled",
        applies=_fact("an expanded tensor changed"),
    ),
    Exclusion(
        id="CX-14",
        why="a tensor that was used, or is a result, and whose `.data` took another shape, gets gradients of either "
        "shape: torch compares shapes after each node, and a leaf's gradient may be of any",
        applies=_fact("data of another shape"),
    ),
    Exclusion(
        id="CX-14",
        why="a view whose `.data` was exchanged keeps its place in its base; after a change torch takes the place that "
        "the other memory would have there",
        applies=lambda program, outcome: {"the data of a view exchanged", "changed"} <= outcome.facts,
    ),
    Exclusion(
        id="CX-32",
        why="a custom Function, too, refuses what was detached in place after it was saved",
        applies=_fact("an argument of a Function detached"),
    ),
    Exclusion(
        id="BW-16",
        why="a gradient is no view of another tensor, and may be detached in place; some of torch's are",
        applies=lambda program, outcome: "a gradient detached" in outcome.facts and _VIEW(program, outcome),
    ),
    Exclusion(
        id="BW-08",
        why="a gradient that is complex is made real for a real operand; torch's where() and others assert instead",
        applies=_torch_says("input_is_complex == grad_is_complex"),
    ),
    Exclusion(
        id="HK-10",
        why="retain_grad follows a tensor also where its node has several outputs; torch fails an assertion of its own",
        applies=_torch_says("INTERNAL ASSERT FAILED"),
    ),
    Exclusion(
        id="EN-30",
        why="an operand with gaps that shares memory with what is changed is read before that is written; torch, which "
        "refuses dense ones, reads what it has written half",
        applies=_fact("an operand with gaps overlaps what is changed"),
    ),
)


def excluded(program: Program, outcome: Outcome) -> str | None:
    """Return the id of the first meant difference that a program comes to, None if there is none."""
    return next((e.id for e in EXCLUSIONS if e.applies(program, outcome)), None)


PASSED = set(PASSING)
"""The Functions that return inputs as they are."""

IN_SESSION: tuple[Exclusion, ...] = (
    Exclusion(
        id="OU-12",
        why="what a view that a Function made has become after a change of its memory is not known: it cannot be read, "
        "also where no gradient flows",
        applies=_fact("what a Function made a view of changed"),
    ),
    Exclusion(
        id="CX-14",
        why="a node that saved both an input and what a Function returned of it as it is does not tell which of the "
        "two has its `.data` exchanged",
        applies=lambda program, outcome: (
            "the data of a view exchanged" in outcome.facts and bool(PASSED & outcome.facts)
        ),
    ),
    Exclusion(
        id="H1",
        why="whether reshape() of a value that is not there yet copies is not known, and an expanded one is not "
        "written through: what may share memory so is not changed in place",
        applies=lambda program, outcome: {"reshaped", "changed"} <= outcome.facts,
    ),
)


def excluded_in_session(program: Program, outcome: Outcome) -> str | None:
    """Return the id of the first difference that holds in a session only, None if there is none."""
    return next((e.id for e in IN_SESSION if e.applies(program, outcome)), None)
