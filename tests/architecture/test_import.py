"""`import raygrad` is cheap: no room, no Ray, no CuPy, no torch, until something of theirs is asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import raygrad

ROOMS = ("autograd", "scheduler", "workers", "proto", "report")
HEAVY = ("ray", "cupy", "torch", "jax", "sklearn", "rich", "jinja2", "autograd")


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter, outside the repository, holds after `statement`."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd=sys.prefix
    )
    return set(json.loads(done.stdout))


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return modules_after("import raygrad")


@pytest.fixture(scope="module")
def first_use() -> set[str]:
    """What the first attribute loads beyond NumPy and the interpreter's own start."""
    return modules_after("import raygrad; raygrad.tensor") - modules_after("import numpy")


@pytest.mark.parametrize("name", HEAVY)
def test_import_raygrad_loads_no_backend(loaded: set[str], name: str):
    assert name not in loaded


@pytest.mark.parametrize("room", ROOMS)
def test_import_raygrad_loads_no_room(loaded: set[str], room: str):
    assert f"raygrad.{room}" not in loaded


def test_each_public_name_resolves():
    missing = [name for name in raygrad.__all__ if not hasattr(raygrad, name)]
    assert not missing


def test_public_names_are_listed_once_and_by_dir():
    assert len(set(raygrad.__all__)) == len(raygrad.__all__)
    assert set(raygrad.__all__) <= set(dir(raygrad))


@pytest.mark.parametrize("name", ["numpy.f2py", "numpy.testing", "numpy.random", "unittest", "logging"])
def test_the_first_attribute_loads_nothing_that_takes_long(first_use: set[str], name: str):
    assert name not in first_use


def test_the_first_attribute_loads_no_simulated_device(first_use: set[str]):
    assert not [name for name in first_use if name.startswith("raygrad.autograd.devices.simulated.")]


@pytest.mark.parametrize("name", ["scheduler", "workers", "proto", "report", "client"])
def test_the_first_attribute_loads_the_autograd_room_alone(first_use: set[str], name: str):
    assert f"raygrad.{name}" not in first_use


@pytest.mark.slow
def test_using_tensors_loads_no_backend():
    held = modules_after("import raygrad\nraygrad.tensor([1.0], requires_grad=True).sum().backward()")
    assert not {"ray", "cupy", "torch", "jax"} & held


@pytest.mark.slow
def test_a_session_loads_no_renderer_until_something_is_rendered():
    run = "import raygrad as rg\nwith rg.Session(workers=1) as session:"
    run += "\n    run = session.run(rg.tensor([1.0]) * 2).wait()"
    report = "\n    report = run.report().as_dict()"
    held = modules_after(run + report)
    assert "raygrad.report.run_report" in held
    assert not {"rich", "jinja2"} & held


@pytest.mark.slow
def test_the_interop_room_loads_no_framework_until_a_node_is_made():
    held = modules_after("import raygrad\nraygrad.interop.torch.TorchFunction, raygrad.interop.jax.JaxFunction")
    assert "raygrad.interop.jax_runtime" in held
    assert not {"torch", "jax", "jaxlib"} & held


def test_frameworks_are_loaded_on_request_in_one_place():
    """`lint-imports` sees import statements; this sees those inside functions, and imports by name, too."""
    root = Path(raygrad.__file__).parent
    named = re.compile(
        r"""^\s*(import|from)\s+(torch|jax|jaxlib)\b|(import_module|__import__)\(\s*["'](torch|jax|jaxlib)""",
        re.MULTILINE,
    )
    assert named.search("    import torch\n")
    assert named.search('import_module("jax")')
    sources = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    assert not [name for name, text in sources.items() if named.search(text)]
    asking = {name for name, text in sources.items() if "from .backends import load" in text}
    assert {name.split("/")[0] for name in asking} == {"interop"}
