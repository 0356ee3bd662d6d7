"""The mode "standin": a program run eagerly with the simulated GPU as the device on which factories make tensors.

What PyTorch keeps on the host whatever the device (arrays of NumPy's taken over, and read) goes
there and comes from there by the copies that a program for a GPU has in these places.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .harness import Outcome, run_here
from .programs import Program

_FOR_THE_HOST = "it registers entries for 'cpu'"
_NUMPY = "it shares memory with NumPy's arrays, or returns them"

HOST_ONLY = {
    **dict.fromkeys(
        """
        an_entry_is_immutable_and_needs_op_device_and_backward an_omitted_dtype_is_any a_device_must_be_given
        the_entry_chosen_in_forward_is_used_in_backward the_most_specific_entry_wins
        a_key_is_taken_once_and_names_are_known an_op_may_be_registered_before_it_is_declared
        without_a_derivative_forward_runs_and_backward_says_so setup_context_gets_names_output_and_meta
        without_meta_it_is_none three_operands_without_setup_context_save_nothing the_context_of_an_entry_is_a_context
        an_entry_saves_tensors_only gradients_come_by_name_or_in_order_or_alone wrong_gradients_of_an_entry_are_refused
        larger_gradients_of_an_entry_are_summed an_op_of_several_outputs_gets_a_tuple
        an_undefined_gradient_of_an_op_may_be_none an_entry_says_in_a_word_what_to_save a_saved_number_is_given_back
        a_registered_op_is_like_a_function an_entry_for_any_device_gets_the_arrays_where_they_are
        registrations_reach_the_workers_with_the_nodes_that_need_them a_function_may_call_a_declared_op
        an_op_with_a_shape_rule_and_parameters_runs_anywhere a_function_uses_the_clients_entries_of_built_in_ops
        """.split(),
        _FOR_THE_HOST,
    ),
    **dict.fromkeys(("writing_into_an_argument", "arrays_as_gradients", "a_dirty_input_written_by_numpy"), _NUMPY),
    **dict.fromkeys(("pickles_of_tensors", "non_leaves_are_not_pickled"), "a tensor of a device is not pickled"),
    **dict.fromkeys(("devices_of_gradients", "what_gradients_have_to_be"), "it returns the names of devices"),
    "large_captured_array": "NumPy multiplies what was expanded with other last bits once a transfer has made it dense",
    "layout_of_the_first_gradient": "what has gaps is dense once it was moved",
}
"""Why a program has no form for devices, by its name."""


def run_on_stand_in(program: Program) -> Outcome:
    """Run a program on the simulated device."""
    rg = importlib.import_module("raygrad")
    devices = importlib.import_module("raygrad.autograd.devices")
    with devices.use_stand_in(1), rg.device("cuda:0"), through_copies(rg):
        return run_here(program, "raygrad")


@contextmanager
def through_copies(rg: Any) -> Generator[None]:
    numpy, from_numpy = rg.Tensor.numpy, rg.from_numpy
    modes = importlib.import_module("raygrad.autograd.core.modes")

    def read(tensor: Any, *, force: bool = False) -> Any:
        return numpy(tensor.cpu() if tensor.is_cuda else tensor, force=force)

    def taken(array: Any) -> Any:
        tensor = from_numpy(array)
        place = modes.state.device
        return tensor if place is None else tensor.to(place)

    rg.Tensor.numpy, rg.from_numpy = read, taken
    try:
        yield
    finally:
        rg.Tensor.numpy, rg.from_numpy = numpy, from_numpy
