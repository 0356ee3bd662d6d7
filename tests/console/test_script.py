"""`raygrad run`: a script runs as `python` runs it, and its sessions where the command line says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def run(script: Path, *words: str, command: tuple[str, ...] = ("-m", "raygrad", "run"), **extra: str):
    environment = dict(os.environ) | extra
    return subprocess.run(
        [sys.executable, *command, *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        cwd=script.parent,
        env=environment,
    )


def compare(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script both ways; both must end alike. Returns how."""
    plainly = run(script, str(script), *arguments, command=())
    ours = run(script, str(script), *arguments)
    assert (ours.stdout, ours.stderr, ours.returncode) == (plainly.stdout, plainly.stderr, plainly.returncode)
    return ours


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_the_script_is_main_with_its_own_arguments_and_folder(script: Path):
    script.write_text(
        "import sys, __main__, helper\n"
        "value = 3\n"
        "print(sys.argv, __name__, __file__, __main__.value, __spec__, helper.name, sys.path[0])\n"
    )
    (script.parent / "helper.py").write_text("name = __name__\n")
    done = compare(script, "--on", "mine", "-x", "3")
    assert "'--on', 'mine', '-x', '3'" in done.stdout


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import sys\nsys.exit(3)", 3),
        ("import sys\nsys.exit('out of paper')", 1),
        ("def f():\n    raise KeyError('lost')\n\nf()", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise RuntimeError('both') from error", 1),
        ("import atexit\natexit.register(print, 'bye')\nprint('hello')", 0),
        ("import sys\nsys.excepthook = lambda kind, error, trace: print('mine', error)\nraise ValueError(3)", 1),
    ],
    ids=["exit", "message", "error", "cause", "atexit", "excepthook"],
)
def test_exit_codes_and_tracebacks_are_those_of_python(script: Path, body: str, code: int):
    script.write_text(body + "\n")
    assert compare(script).returncode == code


def test_a_syntax_error_is_shown_as_python_shows_it(script: Path):
    script.write_text("x = = 3\n")
    assert "SyntaxError" in compare(script).stderr


def test_ctrl_c_ends_it_as_it_ends_a_script(script: Path):
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    assert compare(script).returncode == -signal.SIGINT


def test_processes_that_the_script_spawns_find_its_functions(script: Path):
    script.write_text(
        "import multiprocessing\n\ndef double(x):\n    return 2 * x\n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
    )
    assert compare(script).stdout == "[2, 4]\n"


AMBIENT = """
import raygrad as rg
from raygrad.client.session.session import ambient

W = rg.tensor([1.0, 2.0], requires_grad=True)
y = (W * 3).sum()
y.backward()
session = ambient()
print(session and session.address, session and session.workers, y.item(), W.grad.numpy())
"""


def test_a_script_without_a_session_runs_in_one(script: Path):
    script.write_text(AMBIENT)
    assert run(script, "--workers", "3", str(script)).stdout == "local 3 9.0 [3. 3.]\n"
    assert run(script, str(script), command=()).stdout == "None None 9.0 [3. 3.]\n"


def test_an_error_that_nobody_read_is_raised_at_the_end(script: Path):
    script.write_text(
        "import raygrad as rg\n\nclass Bad(rg.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n"
        "    @staticmethod\n    def backward(ctx, g):\n        raise ArithmeticError('on purpose')\n"
        "x = rg.ones(2, requires_grad=True)\nBad.apply(x).sum().backward()\nprint('submitted')\n"
    )
    done = run(script, str(script))
    assert (done.returncode, done.stdout) == (1, "submitted\n")
    assert "ArithmeticError: on purpose" in done.stderr
    assert "console" not in done.stderr


OWN = """
import raygrad as rg
from raygrad.client.session.session import ambient

W = rg.ones(3, requires_grad=True)
scaled = W * 2
assert ambient() is None
with rg.Session() as session:
    (scaled * 3).sum().backward()
    print(session.address, session.workers, W.grad.numpy())
"""


def test_a_script_with_sessions_of_its_own_runs_as_it_does_without_the_console(script: Path):
    script.write_text(OWN)
    done = run(script, "--workers", "2", str(script))
    assert done.stdout == "local 2 [6. 6. 6.]\n", done.stderr


HIDDEN = """
import raygrad as rg
from helper import ambient, opened

scaled = rg.ones(3) * 2
first = ambient()
with opened(workers=1) as session:
    assert session is not first and ambient() is session
    print(session.address, (scaled * 3).numpy())
print(ambient(), (scaled + 1).numpy())
"""


def test_the_session_steps_aside_for_one_that_a_library_opens(script: Path):
    script.write_text(HIDDEN)
    helper = "from raygrad.client.session.session import Session, ambient\n\nopened = Session\n"
    (script.parent / "helper.py").write_text(helper)
    done = run(script, "--workers", "2", str(script))
    assert done.stdout == "local [6. 6. 6.]\nNone [3. 3. 3.]\n", done.stderr


def test_a_session_that_names_its_address_keeps_it(script: Path):
    script.write_text("import raygrad as rg\nprint(rg.Session('local').address)\n")
    assert run(script, "--on", "ray:127.0.0.1:1", str(script)).stdout == "local\n"


def test_an_address_at_which_nothing_answers_is_an_error_of_the_script(script: Path):
    script.write_text("import raygrad as rg\nrg.Session()\n")
    pytest.importorskip("ray")
    done = run(script, "--on", "ray:127.0.0.1:1", str(script))
    assert done.returncode == 1
    assert "no Ray answers at 127.0.0.1:1" in done.stderr
    assert f'File "{script}", line 2' in done.stderr


def test_a_number_of_workers_in_the_environment_that_is_none_names_the_variable(script: Path):
    script.write_text("import raygrad as rg\nrg.Session()\n")
    done = run(script, str(script), RAYGRAD_WORKERS="many", command=())
    assert "ValueError: RAYGRAD_WORKERS takes a whole number from 1 to 100,000, got 'many'" in done.stderr


def explain(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(script, *words, command=("-m", "raygrad", "explain"))


STEPS = """
import sys
import raygrad as rg

W = rg.ones(3, requires_grad=True)
with rg.Session(workers=2) as session:
    for step in range(3):
        (W * 2).sum().backward()
        with rg.no_grad():
            W -= W.grad.numpy().sum()
        print("step", step)
"""


def test_explain_shows_the_first_submission_and_ends_the_script(script: Path):
    script.write_text(STEPS)
    done = explain(script, str(script))
    assert done.returncode == 0, done.stderr
    assert "on 1 of 2 workers, predicted to take" in done.stdout
    assert "step 0" not in done.stdout


def test_explain_runs_what_it_is_to_skip_and_saves_what_it_shows(script: Path):
    script.write_text(STEPS)
    done = explain(script, "--skip", "1", "--save", "plan.json", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("step 0\n")
    assert "step 1" not in done.stdout
    again = explain(script, str(script.parent / "plan.json"))
    assert again.stdout == done.stdout.removeprefix("step 0\n")


def test_explain_of_a_file_that_is_no_plan_is_one_line(script: Path):
    (script.parent / "plan.json").write_text('{"plan": 3}')
    done = explain(script, str(script.parent / "plan.json"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "no plan that this version of raygrad has saved" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allow-pickle",), "--allow-pickle: it is for sessions at wss://HOST:PORT or ws://HOST:PORT"),
        (("--on", "ray", "--allow-pickle"), "these run at ray"),
        (("--on", "ws://127.0.0.1:1", "--ca", __file__), "--ca: it is for sessions at wss://HOST:PORT"),
    ],
)
def test_trust_in_a_service_that_is_none_is_refused(script: Path, words: tuple[str, ...], said: str):
    script.write_text("print('not run')\n")
    done = run(script, *words, str(script))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
