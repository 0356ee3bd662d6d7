"""What raygrad means to do otherwise than torch: programs that come to it are not compared.

Each predicate names the behaviour that SEMANTICS marks [DIVERGE], and looks at the program and at
what torch's run went through, never at raygrad's. A difference that no line here foresees is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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


def _both(fact: str, words: str) -> Callable[[Program, Outcome], bool]:
    says = _torch_says(words)
    return lambda program, outcome: fact in outcome.facts and says(program, outcome)


_SEVERAL = _torch_says("Function cannot return more than one Tensor")

EXCLUSIONS = (
    Exclusion(
        id="EN-12",
        why="the producer of a non-leaf among `inputs` of backward() is not run: no hook or user's backward of it, no "
        "freed buffer, no error",
        applies=lambda program, outcome: (
            "backward to a non-leaf whose producer shows that it runs" in outcome.facts
            or ("backward to a non-leaf" in outcome.facts and outcome.error is not None)
        ),
    ),
    Exclusion(
        id="HK-08",
        why="grad() returns the value after the hooks of a non-leaf, also when gradient is needed further back",
        applies=_fact("grad of a hooked non-leaf among others"),
    ),
    Exclusion(
        id="BW-18",
        why="a gradient that depends on a saved intermediate refuses to be differentiated again",
        applies=lambda program, outcome: {"create_graph", "intermediate"} <= outcome.facts,
    ),
    Exclusion(
        id="HK-11",
        why="hooks on a view whose memory is changed later stay on the old version and fire; torch drops them",
        applies=_fact("a hooked view changed"),
    ),
    Exclusion(
        id="BW-15",
        why="an expanded tensor is read-only, and so is a part of it; torch lets it be filled",
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
        id="CX-14",
        why="eagerly a node keeps an operand of another dtype as it was converted; torch converts it once more, and so "
        "sees what is written through `.data` meanwhile",
        applies=lambda program, outcome: {"what .data showed changed", "two dtypes"} <= outcome.facts,
    ),
    Exclusion(
        id="MD-01",
        why="a view that was made before its base got history in place may be changed in place, too; torch takes it "
        "for a leaf, unless somebody has looked at its node",
        applies=lambda program, outcome: (
            "a view changed last" in outcome.facts
            and outcome.error is not None
            and str(outcome.error[0]).startswith("a leaf Variable that requires grad")
        ),
    ),
    Exclusion(
        id="EN-29",
        why="integers never require grad; torch's do, once values that do were put among them",
        applies=_fact("an integer tensor requires grad"),
    ),
    Exclusion(
        id="EN-38",
        why="matrices without elements have to be of one dtype, too",
        applies=_fact("no elements of two dtypes multiplied"),
    ),
    Exclusion(
        id="CX-32",
        why="a custom Function, too, refuses what was detached in place after it was saved",
        applies=_fact("an argument of a Function detached"),
    ),
    Exclusion(
        id="BW-16",
        why="a gradient is a tensor of its own, and may be detached in place; torch's is a view where the derivative "
        "of an op is one (of sum, reshape, stack)",
        applies=_both("a gradient that is a view detached", "Can't detach views in-place"),
    ),
    Exclusion(
        id="CX-32",
        why="a product of a matrix and a batch of columns is a tensor of its own, and may be detached in place; torch "
        "computes it transposed, and gives a view of that",
        applies=_both("a product that is a view detached", "Can't detach views in-place"),
    ),
    Exclusion(
        id="BW-16",
        why="such a gradient may be changed in place with recording on; torch's is a view that was made with it off",
        applies=_both("the memory of a gradient that is a view changed", "A view was created in no_grad mode"),
    ),
    Exclusion(
        id="BW-16",
        why="gradients of one call share no memory: to change one leaves the others as they are; where one of torch's "
        "is a view of another, both change",
        applies=_fact("the memory of several gradients changed"),
    ),
    Exclusion(
        id="BW-16",
        why="such a gradient does not begin to require grad with the tensor that torch's is a view of",
        applies=_fact("a gradient that is a view requires grad"),
    ),
    Exclusion(
        id="BW-16",
        why="a gradient is no view of another tensor, and may be changed by a Function with other outputs; some of "
        "torch's are",
        applies=lambda program, outcome: (
            "a gradient changed by a Function" in outcome.facts and _SEVERAL(program, outcome)
        ),
    ),
    Exclusion(
        id="OU-21",
        why="where a Function that changed a view returns no gradient for it, the rest of the base has its gradient; "
        "torch's is lost",
        applies=_fact("a view overwritten by a Function"),
    ),
    Exclusion(
        id="EN-31",
        why="the derivative of a product with several zeros has a derivative, which is not zero; torch's has none",
        applies=lambda program, outcome: {"create_graph", "a product of several zeros"} <= outcome.facts,
    ),
    Exclusion(
        id="EN-31",
        why="the derivative of a product with several zeros is 0 times what arrives, which is not 0 where that is "
        "infinite or undefined; torch does not look at what arrives",
        applies=lambda program, outcome: (
            "a product of several zeros" in outcome.facts
            and any(not np.isfinite(t.value).all() for t in outcome.tensors if not isinstance(t, Exception))
        ),
    ),
    Exclusion(
        id="H1",
        why="elementwise results of operands that lie in different orders lie row by row; torch's lie as the first "
        "operand, so that reshape() copies there, and view() is refused",
        applies=_fact("reshaped as it lies"),
    ),
    Exclusion(
        id="BW-08",
        why="the gradient of a real operand beside a complex one is made real; torch may fail an assertion of its own",
        applies=_torch_says("input_is_complex == grad_is_complex"),
    ),
    Exclusion(
        id="HK-10",
        why="retain_grad follows the second and later outputs of a node through changes in place; torch may fail an "
        "assertion of its own",
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


IN_SESSION: tuple[Exclusion, ...] = (
    Exclusion(
        id="EN-30",
        why="the strides of extents of one do not travel, by which torch tells whether two overlap in part",
        applies=_fact("arguments of one memory with extents of one"),
    ),
    Exclusion(
        id="H1",
        why="whether reshape() copied a value that is not there yet, or one that was changed since it was made, is not "
        "known where only a kernel knows how it was laid out: what may share memory so is not changed in place",
        applies=_fact("changed after it was reshaped to a copy, or after a change"),
    ),
)


def excluded_in_session(program: Program, outcome: Outcome) -> str | None:
    """Return the id of the first difference that holds in a session only, None if there is none."""
    return next((e.id for e in IN_SESSION if e.applies(program, outcome)), None)
