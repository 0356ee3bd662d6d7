"""Programs under which raygrad once differed from torch, made small: each must agree now, eagerly and in a session."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .checking import check_eagerly, check_in_session
from .programs import Leaf, Program

pytestmark = pytest.mark.oracle

ONE = Leaf((1,), "float64", True, 45)
TWO = Leaf((2, 3), "float64", True, 42)
SMALL = Leaf((), "float64", True, 19)

FOUND: dict[str, Program] = {
    "an_op_that_saves_nothing_runs_twice": Program(
        (TWO,), (("binary", "add", 0, 0), ("backward", (1,), {}), ("backward", (1,), {}))
    ),
    "a_number_that_was_saved_is_freed_too": Program(
        (SMALL,), (("binary", "mul", 0, ("number", 2.0)), ("grad", (1,), (0,), {}), ("backward", (1,), {}))
    ),
    "a_leaf_whose_flag_was_cleared_gets_no_gradient": Program(
        (TWO,), (("binary", "mul", 0, 0), ("requires_grad_", 0, False), ("backward", (1,), {}))
    ),
    "a_leaf_that_became_a_result_gets_no_gradient": Program(
        (Leaf((2, 3), "float64", True, 30), Leaf((2, 3), "float64", True, 31)),
        (
            ("unary", "cos", 0),
            ("requires_grad_", 0, False),
            ("inplace", "mul_", 0, (("tensor", 1),)),
            ("backward", (2,), {}),
        ),
    ),
    "an_element_is_a_view": Program(
        (Leaf((3,), "float64", False, 45),), (("getitem", 0, (1,)), ("inplace", "zero_", 0, ()))
    ),
    "squeezing_nothing_gives_a_view_too": Program((SMALL,), (("view", "squeeze", 0, ()), ("inplace", "neg_", 1, ()))),
    "flattening_a_vector_gives_the_vector": Program((Leaf((3,), "float64", True, 5),), (("view", "flatten", 0, ()),)),
    "what_was_saved_in_another_dtype_is_stale_after_a_change": Program(
        (Leaf((2, 1), "float32", True, 24), Leaf((2, 1), "float64", True, 25)),
        (
            ("binary", "mul", 0, ("number", 3.0)),
            ("binary", "maximum", 2, 1),
            ("no_grad", (("inplace", "square_", 2, ()),)),
            ("backward", (3,), {}),
        ),
    ),
    "a_result_written_in_place_is_stale_after_the_next_change": Program(
        (ONE, Leaf((1,), "float64", True, 3)),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("inplace", "sigmoid_", 2, ()),
            ("inplace", "div_", 2, (("tensor", 1),)),
            ("backward", (2,), {}),
        ),
    ),
    "what_is_multiplied_by_itself_in_place_is_stale": Program(
        (SMALL,),
        (("binary", "mul", 0, ("number", 2.0)), ("inplace", "mul_", 1, (("tensor", 1),)), ("backward", (1,), {})),
    ),
    "a_view_of_a_base_that_was_detached_in_place_is_a_view_of_a_leaf": Program(
        (ONE,),
        (
            ("binary", "mul", 0, 0),
            ("getitem", 1, (("slice", 0, None, None),)),
            ("detach_", 1),
            ("inplace", "tanh_", 2, ()),
        ),
    ),
    "zeros_left_by_a_fill_have_no_history": Program(
        (Leaf((2, 2), "float64", True, 31),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("inplace", "fill_", 1, (2.0,)),
            ("apply", "mix", (1, 1)),
            ("backward", (2,), {"create_graph": True}),
        ),
    ),
    "indices_that_were_saved_require_no_grad": Program(
        (Leaf((2, 2, 3), "float64", True, 49),),
        (("reduce", "min", 0, 0, True), ("backward", (1,), {"create_graph": True})),
    ),
    "an_output_marked_non_differentiable_and_saved_requires_no_grad": Program(
        (TWO,), (("apply", "sign", (0,)), ("backward", (1,), {"create_graph": True}))
    ),
    "at_the_origin_atan2_has_gradient_zero": Program(
        (Leaf((2, 3), "float64", True, 44),),
        (("binary", "sub", 0, 0), ("binary", "atan2", 1, 1), ("backward", (2,), {})),
    ),
    "nan_has_no_sign": Program(
        (TWO,), (("binary", "sub", 0, 0), ("unary", "log", 1), ("binary", "div", 2, 2), ("unary", "sign", 3))
    ),
    "a_gradient_passes_where_relu_met_nan": Program(
        (Leaf((2, 3), "float64", True, 44),),
        (("binary", "div", 0, 0), ("unary", "relu", 1), ("backward", (2,), {})),
    ),
    "a_gradient_of_relu_can_be_differentiated": Program(
        (TWO,), (("unary", "relu", 0), ("grad", (1,), (0,), {"create_graph": True}), ("backward", (2,), {}))
    ),
    "a_returned_input_that_is_changed_without_recording_is_stale": Program(
        (Leaf((2, 2), "float64", True, 8),),
        (("apply", "passing", (0,)), ("no_grad", (("inplace", "square_", 1, ()),)), ("backward", (1,), {})),
    ),
    "values_put_at_indices_are_of_one_dtype": Program(
        (Leaf((2, 3), "float32", False, 41), Leaf((), "float64", False, 38)), (("setitem", 0, (("list", (1, 0)),), 1),)
    ),
    "a_mask_is_filled_with_a_value_of_any_dtype": Program(
        (Leaf((2, 3), "float32", False, 41), Leaf((), "float64", False, 38)), (("setitem", 0, (("mask", 0.3),), 1),)
    ),
    "of_no_complex_numbers_the_greatest_are_none": Program(
        (Leaf((0, 3), "complex128", False, 0),), (("reduce", "amax", 0, -1, False),)
    ),
    "of_no_complex_numbers_the_greatest_have_no_derivative": Program(
        (Leaf((0, 3), "complex128", True, 0),), (("reduce", "amax", 0, -1, False),)
    ),
    "complex_numbers_have_no_least_element": Program(
        (Leaf((2,), "complex128", False, 42),), (("reduce", "amin", 0, 0, False),)
    ),
    "a_product_that_was_changed_is_stale": Program(
        (TWO,), (("reduce", "prod", 0, 0, False), ("inplace", "exp_", 1, ()), ("backward", (1,), {}))
    ),
    "the_product_of_one_number_has_no_second_derivative": Program(
        (SMALL,), (("reduce", "prod", 0, 0, True), ("backward", (1,), {"create_graph": True}))
    ),
    "a_negative_power_of_an_integer_is_cut_to_one": Program(
        (Leaf((3,), "int64", False, 34),), (("binary", "pow", 0, 0),)
    ),
    "complex_numbers_have_no_order": Program((Leaf((2, 1), "complex128", False, 9),), (("where", 0, 0.3, 0, 0),)),
    "relu_takes_no_complex_numbers": Program((Leaf((2, 1), "complex128", False, 9),), (("unary", "relu", 0),)),
    "an_op_without_a_kernel_for_a_dtype_is_not_implemented": Program(
        (Leaf((2, 1), "complex128", False, 9),), (("unary", "floor", 0),)
    ),
    "abs_of_complex_numbers_does_not_fit_in_place": Program(
        (Leaf((2, 1), "complex128", False, 9),), (("inplace", "abs_", 0, ()),)
    ),
    "a_named_dimension_that_is_empty_has_no_least_element": Program(
        (Leaf((0,), "float64", False, 9),), (("reduce", "amin", 0, (0,), False),)
    ),
    "no_index_is_within_an_empty_dimension": Program(
        (Leaf((0, 2), "float64", False, 47), Leaf((3,), "float64", False, 1)), (("setitem", 0, (("list", (0, 1)),), 1),)
    ),
    "matrices_without_elements_are_multiplied": Program(
        (Leaf((3, 0), "float64", True, 31), Leaf((0,), "float64", True, 4)),
        (("matmul", 0, 1), ("backward", (2,), {})),
    ),
    "a_retained_gradient_is_added_to_anew": Program(
        (TWO,),
        (
            ("binary", "mul", 0, 0),
            ("retain_grad", 1),
            ("unary", "exp", 1),
            ("backward", (2,), {"create_graph": True}),
            ("backward", (2,), {}),
        ),
    ),
    "a_view_of_a_returned_input_must_not_be_changed": Program(
        (TWO,),
        (
            ("binary", "mul", 0, 0),
            ("apply", "passing", (1,)),
            ("getitem", 2, (0,)),
            ("inplace", "mul_", 3, (2.0,)),
        ),
    ),
    "a_returned_input_is_stale_after_a_change_through_a_detached_alias": Program(
        (TWO,),
        (
            ("binary", "mul", 0, 0),
            ("apply", "passing", (1,)),
            ("view", "detach", 1, ()),
            ("inplace", "add_", 3, (2.0,)),
            ("backward", (2,), {}),
        ),
    ),
    "what_an_op_saved_must_not_be_detached_in_place": Program(
        (TWO,), (("binary", "mul", 0, 0), ("unary", "sin", 1), ("detach_", 1), ("backward", (2,), {}))
    ),
    "a_change_of_a_part_is_passed_once": Program(
        (TWO,),
        (
            ("unary", "clone", 0),
            ("setitem", 1, (0,), ("number", 2.0)),
            ("backward", (1,), {}),
            ("backward", (1,), {}),
        ),
    ),
    "a_leaf_whose_flag_was_cleared_was_not_detached": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "cube", (0,)),
            ("requires_grad_", 0, False),
            ("backward", (1, 2), {}),
        ),
    ),
    "the_gradient_is_nan_where_the_greatest_element_is": Program(
        (TWO,), (("unary", "sqrt", 0), ("reduce", "amax", 1, 1, False), ("backward", (2,), {}))
    ),
    "nans_share_the_gradient_of_the_greatest_of_all": Program(
        (TWO,), (("unary", "sqrt", 0), ("reduce", "max", 1, None, False), ("backward", (2,), {}))
    ),
    "a_number_is_not_cut_into_chunks": Program((SMALL,), (("views", "chunk", 0, (1, 0)),)),
    "infinity_is_overwritten_on_a_diagonal": Program(
        (Leaf((2, 2), "float64", True, 9),),
        (
            ("unary", "exp", 0),
            ("binary", "div", 1, ("number", 0.0)),
            ("view", "diagonal", 2, (0,)),
            ("inplace", "fill_", 3, (2.0,)),
            ("backward", (2,), {}),
        ),
    ),
    "a_part_of_an_infinite_number_is_overwritten": Program(
        (Leaf((2,), "complex128", True, 9),),
        (
            ("binary", "div", 0, ("number", 0.0)),
            ("view", "imag", 1, ()),
            ("inplace", "fill_", 2, (2.0,)),
            ("view", "real", 1, ()),
            ("inplace", "fill_", 3, (1.0,)),
            ("backward", (1,), {}),
        ),
    ),
    "a_mask_without_dimensions_takes_all_or_nothing": Program(
        (SMALL,), (("getitem", 0, (("mask", -0.6),)), ("getitem", 0, (("mask", 9.0),)), ("backward", (1, 2), {}))
    ),
    "a_mask_without_dimensions_is_written_through": Program(
        (Leaf((), "float64", False, 19),), (("setitem", 0, (("mask", -0.6),), ("number", 2.0)),)
    ),
    "zeros_that_stand_for_no_gradient_are_each_their_own": Program(
        (TWO,),
        (
            ("apply", "nothing", (0,)),
            ("grad", (1,), (0, 0), {"materialize_grads": True, "retain_graph": True}),
            ("inplace", "fill_", 2, (2.0,)),
        ),
    ),
    "what_was_changed_without_recording_keeps_its_history": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("no_grad", (("apply", "double_", (1,)),)),
            ("backward", (1,), {}),
        ),
    ),
    "an_argument_given_twice_is_one_memory": Program(
        (TWO,),
        (("binary", "mul", 0, ("number", 2.0)), ("apply", "change_", (1, 1))),
    ),
    "two_arguments_are_not_one_given_twice": Program(
        (TWO, Leaf((2, 3), "float64", True, 7)),
        (
            ("apply", "passing_both", (0, 1)),
            ("apply", "passing_both", (0, 0)),
            ("backward", (2, 3, 4, 5), {}),
        ),
    ),
    "a_detached_argument_beside_itself_is_one_memory": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("view", "detach", 1, ()),
            ("apply", "overwrite_", (2, 1)),
            ("apply", "overwrite_", (2, 1)),
            ("backward", (2,), {}),
        ),
    ),
    "a_view_that_a_function_returned_follows_its_memory": Program(
        (Leaf((2, 3), "float64", False, 7),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "sliced", (1,)),
            ("inplace", "mul_", 1, (2.0,)),
            ("inplace", "neg_", 2, ()),
            ("binary", "mul", 2, ("number", 3.0)),
        ),
    ),
    "a_view_that_a_function_returned_of_what_requires_grad_follows_its_memory": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "turned", (1,)),
            ("no_grad", (("inplace", "mul_", 2, (2.0,)), ("inplace", "neg_", 1, ()))),
            ("no_grad", (("binary", "mul", 2, ("number", 3.0)),)),
        ),
    ),
    "a_view_of_an_argument_with_gaps_follows_its_memory": Program(
        (Leaf((2, 3), "float64", False, 7),),
        (
            ("view", "transpose", 0, (0, -1)),
            ("apply", "sliced", (1,)),
            ("apply", "sliced", (2,)),
            ("inplace", "mul_", 0, (2.0,)),
            ("inplace", "neg_", 3, ()),
        ),
    ),
    "an_empty_view_that_a_function_returned_may_be_changed": Program(
        (Leaf((1, 3), "float64", False, 7),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "sliced", (1,)),
            ("apply", "sliced", (2,)),
            ("inplace", "neg_", 1, ()),
            ("inplace", "neg_", 2, ()),
        ),
    ),
    "what_was_returned_without_recording_shares_its_memory": Program(
        (Leaf((2, 3), "float64", False, 17),),
        (("no_grad", (("apply", "passing", (0,)), ("inplace", "square_", 1, ()))),),
    ),
    "derivatives_of_a_square_have_a_history_as_those_of_a_power": Program(
        (TWO,),
        (
            ("unary", "square", 0),
            ("grad", (1,), (0,), {"create_graph": True}),
            ("grad", (2,), (0,), {"create_graph": True}),
            ("grad", (3,), (0,), {"create_graph": True}),
        ),
    ),
    "one_of_several_views_is_changed": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("views", "split", 1, (1,)),
            ("inplace", "mul_", 2, (2.0,)),
        ),
    ),
    "the_base_of_several_views_is_changed": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("views", "split", 1, (1,)),
            ("inplace", "mul_", 1, (2.0,)),
            ("backward", (2,), {}),
        ),
    ),
    "the_base_of_several_views_is_changed_without_recording": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("views", "split", 1, (1,)),
            ("no_grad", (("inplace", "mul_", 1, (2.0,)),)),
            ("unary", "exp", 2),
        ),
    ),
    "one_of_several_views_is_changed_without_recording": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("views", "split", 1, (1,)),
            ("no_grad", (("inplace", "mul_", 2, (2.0,)),)),
            ("unary", "exp", 3),
        ),
    ),
    "an_op_computes_with_what_its_operands_data_was_exchanged_for": Program(
        (TWO, Leaf((2, 3), "float64", True, 7)),
        (("binary", "mul", 0, 0), ("data", 0, 1), ("backward", (2,), {})),
    ),
    "a_detached_alias_keeps_its_data": Program(
        (TWO, Leaf((2, 3), "float64", True, 7)),
        (("view", "detach", 0, ()), ("binary", "mul", 0, 2), ("data", 2, 1), ("backward", (3,), {})),
    ),
    "what_was_saved_in_another_dtype_is_exchanged_too": Program(
        (Leaf((3,), "float32", True, 24), Leaf((3,), "float64", True, 25), Leaf((3,), "float32", True, 26)),
        (("binary", "mul", 0, 1), ("data", 0, 2), ("backward", (3,), {})),
    ),
    "a_function_sees_what_data_was_exchanged_for": Program(
        (TWO, Leaf((2, 3), "float64", True, 7)),
        (("apply", "cube", (0,)), ("data", 0, 1), ("backward", (2,), {})),
    ),
    "an_output_without_derivative_is_saved_as_it_is": Program(
        (TWO,), (("apply", "sign", (0,)), ("data", 2, 0), ("backward", (1,), {}))
    ),
    "exchanged_data_are_shared": Program(
        (TWO, Leaf((2, 3), "float64", False, 7), Leaf((2, 3), "float64", False, 9)),
        (
            ("binary", "mul", 0, 1),
            ("data", 1, 2),
            ("inplace", "mul_", 1, (2.0,)),
            ("inplace", "add_", 2, (1.0,)),
            ("unary", "exp", 1),
        ),
    ),
    "what_is_changed_by_another_name_was_saved_so": Program(
        (SMALL,), (("unary", "square", 0), ("data", 1, 0), ("inplace", "neg_", 1, ()), ("backward", (1,), {}))
    ),
    "an_output_that_is_changed_by_another_name_was_saved_so": Program(
        (TWO, Leaf((2, 3), "float64", False, 7)),
        (("unary", "exp", 0), ("data", 1, 2), ("inplace", "neg_", 1, ()), ("backward", (2,), {})),
    ),
    "data_of_integers_do_not_fit_what_requires_grad": Program(
        (TWO, Leaf((2, 3), "int64", False, 7)), (("data", 0, 1),)
    ),
    "a_gradient_of_zero_has_no_history": Program(
        (Leaf((3,), "float64", True, 5),),
        (
            ("unary", "sign", 0),
            ("grad", (1,), (0,), {"create_graph": True}),
            ("binary", "pow", 0, ("number", 0.0)),
            ("grad", (3,), (0,), {"create_graph": True}),
        ),
    ),
    "what_reshape_gave_is_changed": Program(
        (TWO,),
        (
            ("unary", "exp", 0),
            ("view", "t", 1, ()),
            ("view", "unsqueeze", 2, (0,)),
            ("view", "reshape", 1, (6,)),
            ("view", "reshape", 3, (3, 2)),
            ("inplace", "mul_", 4, (2.0,)),
            ("inplace", "add_", 5, (1.0,)),
            ("backward", (1, 2), {}),
        ),
    ),
    "what_reshape_gave_of_a_product_is_changed": Program(
        (TWO,),
        (
            ("view", "t", 0, ()),
            ("matmul", 0, 1),
            ("view", "flatten", 2, ()),
            ("inplace", "mul_", 2, (2.0,)),
            ("inplace", "add_", 3, (1.0,)),
            ("backward", (2,), {}),
        ),
    ),
    "a_stale_view_has_no_node": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "passing", (1,)),
            ("inplace", "mul_", 1, (2.0,)),
            ("node_hook", "pre", 2),
        ),
    ),
    "a_view_of_one_of_several_is_changed": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("views", "split", 1, (1,)),
            ("getitem", 2, (0,)),
            ("inplace", "mul_", -1, (2.0,)),
        ),
    ),
    "several_views_of_a_leaf_that_requires_no_grad": Program(
        (Leaf((2, 3), "float64", False, 17), TWO),
        (
            ("views", "unbind", 0, (0,)),
            ("inplace", "mul_", 2, (2.0,)),
            ("unary", "exp", 3),
            ("inplace", "mul_", 0, (("tensor", 1),)),
            ("unary", "exp", 3),
        ),
    ),
    "a_view_made_with_recording_off_requires_grad": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("no_grad", (("getitem", 1, (0,)), ("view", "transpose", 0, (0, 1)))),
            ("binary", "mul", 2, ("number", 2.0)),
            ("backward", (4,), {}),
            ("grad", (4,), (2,), {"allow_unused": True}),
        ),
    ),
    "a_view_made_with_recording_off_is_not_changed_with_it_on": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("no_grad", (("getitem", 1, (0,)),)),
            ("inplace", "mul_", 2, (2.0,)),
        ),
    ),
    "a_view_made_with_recording_off_is_stale_after_a_change": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("no_grad", (("getitem", 1, (0,)), ("inplace", "mul_", 1, (2.0,)))),
            ("unary", "exp", 2),
        ),
    ),
    "a_view_enters_the_graph_with_a_change_of_a_base_that_requires_grad_now": Program(
        (Leaf((3,), "float64", False, 17),),
        (
            ("getitem", 0, (("slice", 0, 2, None),)),
            ("requires_grad_", 0, True),
            ("unary", "exp", 1),
            ("no_grad", (("inplace", "mul_", 0, (2.0,)),)),
            ("unary", "exp", 1),
            ("backward", (2, 3), {}),
        ),
    ),
    "a_gradient_with_a_graph_is_no_view": Program(
        (Leaf((), "complex128", True, 21), Leaf((2, 3), "float64", True, 49)),
        (
            ("binary", "mul", 0, 1),
            ("grad", (2,), (0,), {"create_graph": True}),
            ("detach_", 3),
        ),
    ),
    "an_operand_is_a_part_of_what_is_changed": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("getitem", 1, (0,)),
            ("inplace", "add_", 1, (("tensor", 2),)),
        ),
    ),
    "a_region_takes_the_one_beside_it": Program(
        (Leaf((3,), "float64", False, 17),),
        (
            ("getitem", 0, (("slice", None, -1, None),)),
            ("setitem", 0, (("slice", 1, None, None),), 1),
        ),
    ),
    "an_operand_is_all_of_what_is_changed": Program(
        (Leaf((1, 3), "float64", True, 17),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("getitem", 1, (0,)),
            ("view", "unsqueeze", 2, (0,)),
            ("inplace", "mul_", 1, (("tensor", 3),)),
            ("backward", (1,), {}),
        ),
    ),
    "a_part_is_changed_by_a_function": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("getitem", 1, (0,)),
            ("apply", "exp_", (2,)),
            ("backward", (1,), {}),
        ),
    ),
    "a_view_of_a_leaf_whose_flag_was_cleared_is_cut_off_by_a_change": Program(
        (ONE,),
        (
            ("hook", "log", 0),
            ("view", "unsqueeze", 0, (0,)),
            ("requires_grad_", 0, False),
            ("setitem", 0, (("slice", 1, -1, None),), ("number", 0.5)),
            ("binary", "mul", 0, 1),
            ("backward", (2,), {}),
        ),
    ),
    "empty_vectors_are_joined_along_any_dimension": Program(
        (Leaf((0,), "float64", True, 1),), (("join", "cat", (0, 0, 0), 1), ("backward", (1,), {}))
    ),
    "what_a_function_changed_has_no_gradient_yet": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("retain_grad", 1),
            ("backward", (1,), {"retain_graph": True}),
            ("apply", "double_", (1,)),
            ("backward", (1,), {}),
        ),
    ),
    "a_function_that_changed_a_part_is_not_run_without_gradient": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("getitem", 1, (("slice", None, None, None), ("slice", 1, None, None))),
            ("apply", "double_", (2,)),
            ("apply", "nothing", (1,)),
            ("backward", (4,), {"retain_graph": True}),
            ("backward", (1,), {}),
        ),
    ),
    "a_part_that_was_changed_and_gets_no_gradient_is_passed_again": Program(
        (TWO,),
        (
            ("unary", "clone", 0),
            ("getitem", 1, (0,)),
            ("apply", "double_", (2,)),
            ("apply", "nothing", (1,)),
            ("apply", "nothing", (1,)),
            ("backward", (4,), {}),
            ("backward", (5,), {}),
        ),
    ),
    "hooks_of_the_only_root_are_called_also_where_nothing_behind_it_is_needed": Program(
        (TWO, Leaf((2, 3), "float64", True, 7)),
        (
            ("apply", "intermediate", (0,)),
            ("hook", "log", 2),
            ("retain_grad", 2),
            ("backward", (2,), {"inputs": (1,), "retain_graph": True}),
            ("backward", (2, 2), {"inputs": (1,)}),
        ),
    ),
    "a_view_changed_by_a_function_that_is_given_it_twice_is_one_memory": Program(
        (Leaf((2, 2, 3), "float64", False, 11),),
        (
            ("getitem", 0, (("slice", None, 1, None), ("slice", None, None, None), ("slice", None, -1, None))),
            ("apply", "change_", (1, 1)),
        ),
    ),
    "what_a_function_saves_of_the_memory_that_it_changes_is_fresh": Program(
        (Leaf((0, 3), "float64", True, 16),),
        (("view", "detach", 0, ()), ("apply", "change_", (1, 0)), ("backward", (1,), {})),
    ),
    "a_gradient_of_a_constant_piece_has_no_history": Program(
        (TWO,), (("unary", "sign", 0), ("apply", "exponential", (1,)), ("backward", (2,), {"create_graph": True}))
    ),
    "a_gradient_of_a_power_of_zero_has_no_history": Program(
        (SMALL,),
        (("binary", "pow", 0, ("number", 0.0)), ("unary", "exp", 1), ("backward", (2,), {"create_graph": True})),
    ),
    "what_a_derivative_saves_anew_is_stale_after_a_change": Program(
        (Leaf((2, 2), "float64", True, 20),),
        (
            ("apply", "mix", (0, 0)),
            ("binary", "atan2", 1, 0),
            ("grad", (3,), (0,), {"create_graph": True}),
            ("inplace", "abs_", 1, ()),
            ("backward", (4,), {}),
        ),
    ),
    "an_expanded_tensor_without_elements_is_changed": Program(
        (Leaf((0,), "float64", False, 36),),
        (("view", "expand", 0, (2, 3, 0)), ("inplace", "tanh_", 1, ()), ("apply", "overwrite_", (1, 1))),
    ),
    "a_stale_view_is_compared": Program(
        (TWO,),
        (
            ("apply", "cube", (0,)),
            ("apply", "sliced", (1,)),
            ("masked_fill_", 1, -0.6, 3.0),
            ("where", 2, 0.3, 0, 0),
            ("backward", (2,), {}),
        ),
    ),
    "hooks_of_a_view_are_not_called_for_another_one_that_was_made_of_it": Program(
        (Leaf((3, 2), "float64", True, 2),),
        (
            ("reduce", "max", 0, -1, False),
            ("getitem", 1, (("slice", None, 1, None),)),
            ("getitem", 3, ("...",)),
            ("inplace", "mul_", 3, (2.0,)),
            ("hook", "double", 3),
            ("backward", (4,), {}),
        ),
    ),
    "hooks_that_follow_an_unrecorded_change_are_not_called_for_what_was_made_before": Program(
        (Leaf((1, 3), "float64", True, 28),),
        (
            ("view", "unsqueeze", 0, (-3,)),
            ("binary", "mul", 1, ("number", 2.0)),
            ("no_grad", (("inplace", "relu_", 0, ()),)),
            ("node_hook", "pre_double", 1),
            ("unary", "exp", 1),
            ("backward", (2, 3), {}),
        ),
    ),
    "no_gradient_beside_one_with_a_graph": Program(
        (TWO,),
        (("apply", "nothing", (0,)), ("backward", (1,), {}), ("backward", (0,), {"create_graph": True})),
    ),
    "a_view_of_a_gradient_sees_what_is_added_to_it": Program(
        (ONE,),
        (("backward", (0,), {}), ("take_grad", 0), ("getitem", 1, ("...",)), ("backward", (0,), {})),
    ),
    "an_empty_view_of_what_was_changed_passes_zeros_without_history": Program(
        (Leaf((3, 2), "float64", True, 23),),
        (
            ("binary", "mul", 0, 0),
            ("view", "narrow", 1, (0, 2, 0)),
            ("retain_grad", 1),
            ("inplace", "mul_", 2, (2.0,)),
            ("apply", "turned", (2,)),
            ("backward", (3,), {"create_graph": True}),
        ),
    ),
    "joined_matrices_are_dense": Program(
        (TWO,), (("apply", "turned", (0,)), ("join", "cat", (1, 1), -1), ("view", "view", 2, (12,)))
    ),
    "more_dimensions_are_not_copied_into_fewer": Program(
        (Leaf((), "float64", False, 43),),
        (("binary", "mul", 0, ("number", 2.0)), ("view", "view", 0, (1, 1)), ("inplace", "copy_", 1, (("tensor", 2),))),
    ),
    "a_mask_is_filled_with_no_complex_value_in_a_real_tensor": Program(
        (Leaf((1, 3), "float32", False, 48), Leaf((1,), "complex128", False, 11)),
        (("setitem", 0, (("mask", 0.3),), 1),),
    ),
    "an_operand_of_another_dtype_is_converted_by_the_op_itself": Program(
        (Leaf((2, 3), "float32", True, 7), TWO),
        (("hook", "log", 0), ("hook", "log", 1), ("binary", "mul", 0, 1), ("backward", (2,), {})),
    ),
    "a_branch_of_another_dtype_is_converted_by_where_itself": Program(
        (Leaf((2, 3), "float32", True, 7), TWO),
        (("hook", "log", 0), ("hook", "log", 1), ("where", 0, 0.3, 0, 1), ("backward", (2,), {})),
    ),
    "a_gradient_through_a_converted_operand_is_differentiated": Program(
        (Leaf((2, 3), "float32", True, 7), TWO),
        (
            ("unary", "exp", 0),
            ("hook", "log", 2),
            ("binary", "mul", 2, 1),
            ("grad", (3,), (0, 1), {"create_graph": True}),
            ("binary", "mul", 4, 4),
            ("binary", "mul", 5, 5),
            ("backward", (6, 7), {}),
        ),
    ),
    "what_a_function_returns_as_it_is_is_a_view_also_unrecorded": Program(
        (Leaf((2, 3), "float64", False, 7),),
        (("set_grad_enabled", False), ("apply", "passing_beside", (0,)), ("detach_", 2)),
    ),
    "what_a_function_changed_unrecorded_shares_its_memory": Program(
        (TWO,), (("no_grad", (("apply", "double_", (0,)), ("apply", "double_", (0,)))),)
    ),
    "a_product_without_zeros_is_divided_by_its_elements": Program(
        (TWO,),
        (
            ("unary", "exp", 0),
            ("reduce", "prod", 1, None, False),
            ("hook", "log", 2),
            ("grad", (2,), (0,), {"create_graph": True}),
            ("binary", "mul", 3, 3),
            ("backward", (4,), {}),
        ),
    ),
    "a_product_with_zeros_is_taken_of_the_others": Program(
        (TWO,),
        (
            ("unary", "relu", 0),
            ("reduce", "prod", 1, 1, True),
            ("hook", "log", 2),
            ("grad", (2,), (0,), {"create_graph": True}),
            ("binary", "mul", 3, 3),
            ("backward", (4,), {}),
        ),
    ),
    "a_product_of_one_element_passes_its_gradient": Program(
        (Leaf((1, 3), "float64", True, 42),),
        (("unary", "relu", 0), ("reduce", "prod", 1, 0, False), ("backward", (2,), {"create_graph": True})),
    ),
    "zeros_of_what_was_overwritten_through_a_view_have_history": Program(
        (TWO,),
        (
            ("binary", "mul", 0, 0),
            ("view", "view", 1, (6,)),
            ("inplace", "zero_", 2, ()),
            ("binary", "mul", 0, 0),
            ("binary", "add", 1, 3),
            ("backward", (4,), {"create_graph": True}),
        ),
    ),
    "a_power_of_two_tensors_is_stale_after_a_change_of_its_result": Program(
        (TWO, Leaf((2, 3), "float64", False, 8)),
        (("binary", "pow", 0, 1), ("inplace", "mul_", 2, (2.0,)), ("backward", (2,), {})),
    ),
    "a_function_that_kept_nothing_is_passed_twice_in_a_later_session": Program(
        (TWO,), (("apply", "sliced", (0,)), ("grad", (1,), (0,), {}), ("backward", (1,), {})), begin=1
    ),
    "a_power_with_a_number_is_not": Program(
        (TWO,),
        (("binary", "pow", 0, ("number", 3.0)), ("inplace", "mul_", 1, (2.0,)), ("backward", (1,), {})),
    ),
    "what_has_no_elements_is_not_put_at_indices_of_itself": Program(
        (Leaf((0, 3), "float64", False, 7),), (("setitem", 0, (("mask", 0.5),), 0),)
    ),
    "an_operand_of_a_product_of_matrices_must_not_be_detached_in_place": Program(
        (TWO, Leaf((3, 2), "float64", True, 8)),
        (("unary", "exp", 0), ("matmul", 2, 1), ("detach_", 2), ("backward", (3,), {})),
    ),
    "results_of_reductions_and_scans_lie_row_by_row": Program(
        (TWO,),
        (
            ("view", "transpose", 0, (0, 1)),
            ("reduce", "sum", 1, 0, True),
            ("binary", "mul", 1, 2),
            ("along", "cumsum", 3, 0),
            ("view", "view", 4, (6,)),
            ("inplace", "mul_", 5, (2.0,)),
            ("backward", (4,), {}),
        ),
    ),
    "a_vector_before_a_matrix_may_be_detached_in_place": Program(
        (Leaf((2,), "float64", True, 7), TWO),
        (("unary", "exp", 0), ("matmul", 2, 1), ("detach_", 2), ("backward", (3,), {})),
    ),
    "a_view_that_a_function_returned_is_not_put_at_indices_of_its_base": Program(
        (Leaf((3, 3), "float64", False, 7),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "turned", (1,)),
            ("setitem", 1, (("list", (0, 1, 1)),), 2),
        ),
    ),
    "a_part_that_a_function_returned_is_not_put_at_indices_of_its_base": Program(
        (Leaf((3, 3), "float64", False, 7),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("apply", "sliced", (1,)),
            ("setitem", 1, (("list", (0, 1)),), 2),
        ),
    ),
    "a_view_without_recording_of_what_a_function_changed_without_it_is_stale_after_a_change": Program(
        (Leaf((3,), "float64", True, 0),),
        (
            ("no_grad", (("apply", "double_", (0,)), ("getitem", 1, (0,)))),
            ("setitem", 1, (("slice", None, None, None),), 0),
            ("binary", "mul", 2, ("number", 2.0)),
        ),
    ),
    "what_a_view_retains_is_of_the_place_that_it_had_when_it_was_asked_last": Program(
        (Leaf((2, 3), "float64", False, 0), TWO),
        (
            ("binary", "mul", 1, ("number", 2.0)),
            ("view", "expand", 2, (2, 2, 3)),
            ("retain_grad", 3),
            ("binary", "mul", 3, 0),
            ("inplace", "zero_", 2, ()),
            ("backward", (4,), {}),
        ),
    ),
    "the_gradient_of_a_norm_of_zeros_is_that_times_what_arrives": Program(
        (Leaf((2, 3), "float64", False, 0), Leaf((), "float64", True, 12)),
        (
            ("reduce", "norm", 1, None, False),
            ("binary", "mul", 0, 2),
            ("binary", "div", 0, 3),
            ("backward", (4,), {}),
        ),
    ),
    "a_tensor_without_elements_is_put_at_indices_of_a_slice_of_itself": Program(
        (Leaf((0, 3), "float64", True, 0),),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("setitem", 1, (("slice", None, -1, None), ("list", (0, 0, 0))), 1),
            ("backward", (1,), {}),
        ),
    ),
    "what_is_taken_along_a_later_dimension_lies_row_by_row": Program(
        (TWO,), (("getitem", 0, (("slice", None, None, None), ("list", (0, 0)))), ("view", "view", 1, (1, -1)))
    ),
    "a_view_that_nobody_asked_for_its_node_is_cut_off_with_its_base": Program(
        (TWO, Leaf((), "float64", False, 19)),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("getitem", 2, (0,)),
            ("inplace", "exp_", 2, ()),
            ("setitem", 2, (0,), 1),
            ("detach_", 2),
            ("backward", (3,), {}),
        ),
    ),
    "a_slice_of_nothing_that_counts_from_the_end_is_a_part": Program(
        (Leaf((0,), "float64", True, 0),),
        (
            ("binary", "add", 0, 0),
            ("setitem", 1, (("slice", None, -1, None),), 0),
            ("grad", (1,), (0,), {"allow_unused": True}),
            ("backward", (1,), {}),
        ),
    ),
    "a_slice_of_all_that_counts_from_the_end_is_a_part": Program(
        (TWO, Leaf((), "float64", False, 19)),
        (
            ("binary", "add", 0, 0),
            ("setitem", 2, (("slice", -2, None, None),), 1),
            ("grad", (2,), (0,), {"allow_unused": True}),
            ("backward", (2,), {}),
        ),
    ),
    "a_saved_output_without_derivative_is_made_to_require_grad": Program(
        (TWO,),
        (("apply", "sign", (0,)), ("requires_grad_", 2, True), ("backward", (1,), {"create_graph": True})),
    ),
    "a_saved_leaf_is_made_to_require_grad": Program(
        (Leaf((3,), "float64", True, 0), Leaf((3,), "float64", False, 0)),
        (("binary", "mul", 0, 1), ("requires_grad_", 1, True), ("backward", (2,), {"create_graph": True})),
    ),
    "a_view_by_a_function_of_one_element_is_a_view_however_its_base_lies": Program(
        (Leaf((2, 3), "float64", False, 0),),
        (
            ("unary", "neg", 0),
            ("inplace", "add_", 1, (2.0,)),
            ("getitem", 1, (0, 0)),
            ("apply", "sliced", (2,)),
            ("apply", "double_", (1,)),
        ),
    ),
}
"""By what is now so."""


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.mark.parametrize("name", FOUND)
def test_found_program_agrees_eagerly(torch: Any, name: str) -> None:
    assert check_eagerly(FOUND[name], torch, rg) is None


@pytest.mark.parametrize("name", FOUND)
def test_found_program_agrees_in_a_session(torch: Any, name: str) -> None:
    assert check_in_session(FOUND[name], torch, rg) is None
