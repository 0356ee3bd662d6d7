"""The stubs of raygrad's functions are what the op catalogue says; RAYGRAD_WRITE_STUBS=1 writes them (`make docs`)."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any

import pytest

import raygrad as rg

from .stubs import FOLDER, NAMED, stubs

WRITE = bool(os.environ.get("RAYGRAD_WRITE_STUBS"))


def test_stubs_are_those_of_the_catalogue() -> None:
    made = stubs()
    if WRITE:
        FOLDER.mkdir(exist_ok=True)
        for name, text in made.items():
            (FOLDER / name).write_text(text)
    stale = [name for name, text in made.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]
    assert not stale, "run RAYGRAD_WRITE_STUBS=1 pytest tests/typed/test_stubs.py"
    assert {path.name for path in FOLDER.iterdir()} == set(made)


def test_the_options_of_a_session_are_declared() -> None:
    from raygrad.client.options import RAY_OPTIONS, SERVICE_OPTIONS, SessionOptions

    assert SessionOptions.__annotations__.keys() == {*RAY_OPTIONS, *SERVICE_OPTIONS}


def declared(name: str) -> dict[str, str]:
    """The return types in a stub, by function."""
    found = re.findall(r"^def (\w+)\(.*\) -> (.*): \.\.\.$", (FOLDER / name).read_text(), re.M)
    return dict(found)


def test_every_public_function_is_declared() -> None:
    from raygrad.autograd import ops

    assert set(declared("package.pyi")) == set(ops.__all__)
    assert set(declared("nn_functional.pyi")) == set(ops.FUNCTIONAL)


def test_named_tuples_are_declared_as_such() -> None:
    square = rg.tensor([[2.0, 1.0], [1.0, 3.0]])
    others: dict[str, tuple[Any, ...]] = dict.fromkeys(("kthvalue", "pca_lowrank", "svd_lowrank", "topk"), (square, 1))
    others |= dict.fromkeys(("cummax", "cummin"), (square, 0)) | dict.fromkeys(("lstsq", "solve_ex"), (square, square))
    for path in NAMED:
        module, _, name = path.rpartition(".")
        kind = declared(f"{module.removeprefix('raygrad.') if module != 'raygrad' else 'package'}.pyi")[name]
        result = getattr(import_module(module), name)(*others.get(name, (square,)))
        assert kind.startswith("_"), path
        assert fits(result, kind), path


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_functions_return_what_is_declared() -> None:
    torch = pytest.importorskip("torch")
    from tests.opinfo.entries import entries
    from tests.opinfo.kinds import ours, sample_of

    homes: dict[str, dict[str, str]] = {
        "": declared("package.pyi"),
        "linalg.": declared("linalg.pyi"),
        "fft.": declared("fft.pyi"),
        "special.": declared("special.pyi"),
        "nn.functional.": declared("nn_functional.pyi"),
    }
    others: dict[str, Any] = {}
    seen = 0
    for entry in entries():
        prefix, _, name = entry.info.name.rpartition(".")
        kind = homes.get(f"{prefix}." if prefix else "", {}).get(name)
        if kind is None or kind == "Any" or torch.float64 not in entry.info.supported_dtypes("cpu"):
            continue
        for given in list(entry.info.sample_inputs("cpu", torch.float64))[:3]:
            try:
                sample = ours(sample_of(given))
                result = entry.function[1](*sample.all, **sample.options)
            except Exception:  # what differs from PyTorch is told by tests/opinfo
                continue
            seen += 1
            if not fits(result, kind):
                others[entry.name] = (kind, type(result).__name__)
    assert seen > 500
    # whose function is PyTorch's own: it takes two of the tuple
    assert others == {"linalg.lstsq.grad_oriented": ("_LeastSquares", "tuple")}


def fits(result: Any, kind: str) -> bool:
    """Whether a result is of a declared type."""
    if kind == "Tensor":
        return isinstance(result, rg.Tensor)
    if kind.startswith("_b.tuple"):
        return isinstance(result, tuple | list) and all(isinstance(one, rg.Tensor) for one in result)
    return type(result).__name__ == kind.removeprefix("_b.").removeprefix("_")
