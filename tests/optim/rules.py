"""The table of optimisers: the options that each is tried with, and those that it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """How one optimiser is tried.

    Attributes:
        options: groups of options that it trains with; the last is saved and loaded as well.
        refused: options that it refuses, each with the error's message.
        complex_too: whether it moves complex parameters.
    """

    options: list[dict[str, Any]]
    refused: list[tuple[dict[str, Any], str]]
    complex_too: bool = False


RULES: dict[str, Rule] = {
    "SGD": Rule(
        options=[
            {},
            {"lr": 0.05, "momentum": 0.9},
            {"lr": 0.05, "momentum": 0.9, "dampening": 0.3},
            {"lr": 0.05, "momentum": 0.8, "nesterov": True},
            {"lr": 0.05, "weight_decay": 0.1},
            {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "maximize": True},
            {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"momentum": -1}, "Invalid momentum value: -1"),
            ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
            ({"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
            (
                {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
                "Nesterov momentum requires a momentum and zero dampening",
            ),
        ],
        complex_too=True,
    ),
    "Adadelta": Rule(
        options=[
            {},
            {"lr": 0.5, "rho": 0.8},
            {"weight_decay": 0.1, "eps": 1e-3, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"rho": 1.5}, "Invalid rho value: 1.5"),
            ({"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ],
    ),
    "Adagrad": Rule(
        options=[
            {},
            {"lr": 0.05, "lr_decay": 0.1},
            {"lr": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
            {"lr": 0.05, "eps": 1e-3, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"lr_decay": -1.0}, "Invalid lr_decay value: -1.0"),
            ({"initial_accumulator_value": -1.0}, "Invalid initial_accumulator_value value: -1.0"),
        ],
    ),
    "Adam": Rule(
        options=[
            {},
            {"lr": 0.05, "betas": (0.8, 0.95)},
            {"lr": 0.05, "eps": 1e-3, "weight_decay": 0.1},
            {"lr": 0.05, "amsgrad": True},
            {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
            ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
            ({"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
            ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        ],
    ),
    "AdamW": Rule(
        options=[
            {},
            {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.2},
            {"lr": 0.05, "weight_decay": 0.0},
            {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
            ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        ],
    ),
    "Adamax": Rule(
        options=[
            {},
            {"lr": 0.05, "betas": (0.8, 0.9)},
            {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-3, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
            ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        ],
    ),
    "NAdam": Rule(
        options=[
            {},
            {"lr": 0.05, "momentum_decay": 0.1},
            {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
            {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9), "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
            ({"momentum_decay": -1.0}, "Invalid momentum_decay value: -1.0"),
        ],
    ),
    "RAdam": Rule(
        options=[
            {},
            {"lr": 0.05, "betas": (0.8, 0.9)},
            {"lr": 0.05, "betas": (0.8, 0.99), "weight_decay": 0.1, "decoupled_weight_decay": True},
            {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-3, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
            ({"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ],
    ),
    "RMSprop": Rule(
        options=[
            {},
            {"lr": 0.05, "alpha": 0.9, "eps": 1e-3},
            {"lr": 0.05, "momentum": 0.9},
            {"lr": 0.05, "centered": True, "weight_decay": 0.1},
            {"lr": 0.05, "centered": True, "momentum": 0.5, "maximize": True},
        ],
        refused=[
            ({"lr": -0.1}, "Invalid learning rate: -0.1"),
            ({"alpha": -1.0}, "Invalid alpha value: -1.0"),
            ({"momentum": -1.0}, "Invalid momentum value: -1.0"),
        ],
    ),
}
