"""Builders of nodes for tests: what a test says nothing of is as in most graphs."""

from __future__ import annotations

from typing import Any, TypeVar

from raygrad.proto.ir.nodes import (
    UNDEFINED,
    UNPLACED,
    CheckDefined,
    ControlDependency,
    Digest,
    Emit,
    FunctionCall,
    FunctionVjp,
    GradSum,
    HookCall,
    LeafGrads,
    Load,
    ObservedGradients,
    OpCall,
    OpVjp,
    Spill,
    placed,
)
from raygrad.proto.ir.signatures import ObservedSignature

Ids = tuple[int, ...]
NOTHING_SHOWN = ObservedSignature((), (), (), as_tuple=False, saves=False)
"""For nodes of Functions that have run."""

Plain = TypeVar("Plain", GradSum, CheckDefined, ControlDependency, Digest, Emit, Spill, Load)


def op_node(
    fn: str,
    inputs: Ids = (),
    outputs: Ids = (0,),
    params: tuple[Any, ...] = (),
    *,
    pin: int = -1,
    near: int = UNDEFINED,
) -> OpCall:
    return OpCall(inputs, outputs, pin, near, fn=fn, params=params)


def op_vjp_node(
    fn: str,
    inputs: Ids = (),
    outputs: Ids = (0,),
    wanted: Ids = (1,),
    operand_specs: Ids = (0,),
    result_specs: Ids = (0,),
    params: tuple[Any, ...] = (),
    *,
    pin: int = -1,
    near: int = UNDEFINED,
) -> OpVjp:
    return OpVjp(
        inputs,
        outputs,
        pin,
        near,
        fn=fn,
        params=params,
        wanted=wanted,
        operand_specs=operand_specs,
        result_specs=result_specs,
    )


def function_node(
    fn: str,
    inputs: Ids = (),
    outputs: Ids = (0,),
    requires_grad: Ids | None = None,
    *,
    recorded: bool = True,
    pure: bool = False,
    impure: bool = False,
    silent: bool = False,
    expected: ObservedSignature | None = None,
    keywords: tuple[str, ...] = (),
    shared: tuple[Any, ...] = (),
    leaves: LeafGrads | None = None,
    settings: tuple[Any, ...] = (),
    pin: int = -1,
    near: int = UNDEFINED,
) -> FunctionCall:
    return FunctionCall(
        inputs,
        outputs,
        pin,
        near,
        fn=fn,
        requires_grad=(1,) * len(inputs) if requires_grad is None else requires_grad,
        recorded=recorded,
        pure=pure,
        impure=impure,
        silent=silent,
        expected=expected,
        keywords=keywords,
        shared=shared,
        leaves=leaves,
        settings=settings,
    )


def function_vjp_node(
    fn: str,
    inputs: Ids = (),
    outputs: Ids = (0,),
    *,
    depth: int = 1,
    items: int | None = None,
    arguments: int = 1,
    results: int = 1,
    wanted: Ids = (0,),
    requires_grad: Ids = (),
    differentiated: bool = False,
    refusal: str = "",
    expected: ObservedGradients | None = None,
    retained: bool = False,
    spared: bool = False,
    attributes: tuple[tuple[str, int], ...] = (),
    reports_effects: bool = False,
    leaves: LeafGrads | None = None,
    settings: tuple[Any, ...] = (),
    pin: int = -1,
    near: int = UNDEFINED,
) -> FunctionVjp:
    return FunctionVjp(
        inputs,
        outputs,
        pin,
        near,
        fn=fn,
        depth=depth,
        items=max(len(inputs) - 1, 0) if items is None else items,
        arguments=arguments,
        results=results,
        wanted=wanted,
        requires_grad=requires_grad,
        differentiated=differentiated,
        refusal=refusal,
        expected=expected,
        retained=retained,
        spared=spared,
        attributes=attributes,
        reports_effects=reports_effects,
        leaves=leaves,
        settings=settings,
    )


def hook_node(
    fn: str,
    inputs: Ids = (),
    outputs: Ids = (0,),
    kind: str = "tensor",
    gradients: int = 1,
    shown: int = 0,
    *,
    leaves: LeafGrads | None = None,
    settings: tuple[Any, ...] = (),
) -> HookCall:
    return HookCall(
        inputs,
        outputs,
        -1,
        UNDEFINED,
        fn=fn,
        kind=kind,
        gradients=gradients,
        shown=shown,
        leaves=leaves,
        settings=settings,
    )


def plain_node(kind: type[Plain], inputs: Ids = (), outputs: Ids = (0,)) -> Plain:
    """A node of a kind that has the common fields only."""
    made: Any = kind(*UNPLACED)
    return placed(made, inputs, outputs)
