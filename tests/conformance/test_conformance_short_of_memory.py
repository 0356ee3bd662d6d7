"""Programs of the suite in sessions short of memory: what they save is evicted, spilled and rebuilt on the way.

Two kinds of shortage. In a small memory, values leave as the plan and the workers have it. Where as
much leaves as can, whatever a step does not read is on disk by then, contexts without a large value included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from raygrad.workers.memory import evictor, store
from raygrad.workers.memory.eviction import headroom_victims
from raygrad.workers.memory.memory_limit import MemoryLimiter
from raygrad.workers.memory.store import ValueStore
from raygrad.workers.values import contexts
from raygrad.workers.values.contexts import Context

from .contract import SECTIONS as SECTIONS
from .harness import SESSIONS_IN_PROCESS, Opener, Outcome, assert_same, expected_of
from .programs import PROGRAMS, Program

SMALL = 13_000
"""Bytes of a memory in which these programs are run, and few of their values have room: of a context that nobody has
seen yet, a plan expects 4096."""

AMPLE = 10**9

CHOSEN = tuple(
    """
    array_as_an_argument plain_attributes_of_ctx saved_slots captured_array_replaced_between_steps
    function_applied_inside_forward solver_with_an_adjoint context_read_after_forward
    saved_intermediate_under_create_graph setup_context_gets_names_output_and_meta arrays_as_gradients
    derivatives_by_what_backward_reads_besides saved_intermediates_and_second_derivatives
    tensors_as_plain_attributes order_and_number_of_saved_slots what_comes_back_from_the_saved
    three_passes_over_a_retained_graph one_tensor_in_two_saved_slots attributes_set_in_backward_stay
    attributes_changed_in_place_in_backward_stay attributes_set_through_grad_fn
    what_was_saved_read_through_grad_fn tensors_in_objects_that_are_arguments_too each_slot_is_packed
    packed_values_are_read_from_outside hooks_that_capture_tensors double_backward_through_packed_values
    what_unpacked_values_are the_modes_of_pack_and_unpack changes_after_packing
    what_is_checked_of_unpacked_values only_the_innermost_pair_applies exceptions_of_packing
    decorated_functions_cast_their_inputs callable_as_an_argument keyword_arguments defaults_in_separate_style
    defaults_in_combined_style float32_all_along error_in_backward chain_of_tanh diamond three_nested_diamonds
    exchange leaf_used_twice same_intermediate_passed_twice ladder skip_connections
    control_flow_over_python_values gradient_penalty hook_sees_the_sum order_over_a_graph emits_of_several_kinds
    outputs_that_meet_again grad_of_several_inputs item_of_the_loss branch_on_a_value loop_until_small
    undefined_gradient_is_materialised_behind undefined_gradient_reaches_backward hooks_of_undefined_gradients
    none_for_an_input derivatives_of_any_order complex_outputs_and_real_inputs
    a_pass_in_a_backward_adds_to_captured_leaves many_branches_give_one_sum an_undefined_gradient_is_a_value
    a_captured_number_is_that_of_the_application a_node_waits_for_all_that_arrives keywords_that_do_not_fit
    methods_of_each_kind backward_that_differs_from_run_to_run a_cut_graph_shows_in_the_second_derivative
    hooks_where_no_gradient_arrived
    """.split()
)
"""Programs whose contexts are spilled and rebuilt in one of the two, and some in which they are not."""

REBUILT = {
    "small": "exchange ladder leaf_used_twice many_branches_give_one_sum none_for_an_input keyword_arguments".split(),
    "starved": "saved_slots tensors_as_plain_attributes attributes_set_in_backward_stay each_slot_is_packed".split(),
}
"""Some in which contexts are rebuilt for certain."""


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts values and contexts that are written to disk, and contexts that are rebuilt."""
    found: Counter[str] = Counter()
    spill, rebuild = ValueStore.spill, contexts._rebuild

    def counted(self: ValueStore, value: Any) -> Any:
        found["context" if isinstance(value, Context) else "value"] += 1
        return spill(self, value)

    def rebuilt(cls: Any, packed: Any) -> Any:
        found["rebuilt"] += 1
        return rebuild(cls, packed)

    monkeypatch.setattr(ValueStore, "spill", counted)
    monkeypatch.setattr(contexts, "_rebuild", rebuilt)
    return found


@pytest.fixture(params=["small", "starved"])
def memory(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the memory of a session; where it is `starved`, of which nothing is used that need not be."""
    if request.param == "small":
        return SMALL
    after_step = MemoryLimiter.after_step

    def evict(self: MemoryLimiter, position: int, need: Mapping[str, int]) -> None:
        for device, _ in self._limits:
            self._store.reserve(AMPLE, device, position, fixed=self._account.inputs, among=self._filled)

    def ran(self: MemoryLimiter, position: int) -> None:
        after_step(self, position)
        evict(self, position + 1, {})

    monkeypatch.setattr(MemoryLimiter, "_reserve", evict)
    monkeypatch.setattr(MemoryLimiter, "after_step", ran)
    monkeypatch.setattr(
        evictor, "headroom_victims", lambda named, run, reads, memory, _: headroom_victims(named, run, reads, memory, 0)
    )
    monkeypatch.setattr(store, "LARGE", 1)
    return AMPLE


@pytest.fixture(params=SESSIONS_IN_PROCESS)
def opener(request: Any, memory: int, happened: Counter[str]) -> Generator[Opener]:
    opened = Opener(once=False, workers=1, memory=memory, **SESSIONS_IN_PROCESS[request.param])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def references() -> dict[str, Outcome | Exception]:
    """What the chosen programs give eagerly."""
    from .harness import run_here

    return {name: run_here(PROGRAMS[name], "raygrad") for name in CHOSEN}


@pytest.mark.parametrize("name", CHOSEN)
def test_program(name: str, opener: Opener, references: dict[str, Outcome | Exception]) -> None:
    program: Program = PROGRAMS[name]
    assert_same(opener.run(program), expected_of(program, references))


def test_contexts_are_rebuilt(opener: Opener, memory: int, happened: Counter[str]) -> None:
    for name in REBUILT["small" if memory == SMALL else "starved"]:
        before = happened.copy()
        opener.run(PROGRAMS[name])
        assert happened["context"] > before["context"], name
        assert happened["value"] > before["value"], name
        assert happened["rebuilt"] > before["rebuilt"], name
