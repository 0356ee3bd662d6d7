"""The programs of the conformance suite, one module for each family; PROGRAMS holds them all by name."""

from . import (
    arguments,
    builtins,
    captured,
    errors,
    graphs,
    higher,
    hooks,
    layouts,
    outputs,
    passes,
    reading,
    specific,
    training,
    undefined,
)
from .registry import PROGRAMS as PROGRAMS, TAGS as TAGS, Program as Program

FAMILIES = (
    graphs,
    outputs,
    arguments,
    undefined,
    hooks,
    passes,
    higher,
    layouts,
    builtins,
    reading,
    training,
    captured,
    errors,
    specific,
)
