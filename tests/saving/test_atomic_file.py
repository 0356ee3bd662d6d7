"""A file is replaced as a whole or stays as it was, whenever its writer dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import raygrad as rg
from raygrad.saving import atomic_file
from raygrad.saving.atomic_file import replaced_file

DIES_WHILE_WRITING = """
import os, signal, sys
from raygrad.saving.atomic_file import replaced_file
with replaced_file(sys.argv[1]) as part:
    with open(part, "wb") as file:
        file.write(b"half of")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_leaves_the_old_file_and_the_next_one_removes_its_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    rg.save({"old": rg.ones(3)}, path)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", DIES_WHILE_WRITING, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    rg.save({"new": rg.ones(3)}, path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert list(rg.load(path)) == ["new"]


SAVES_FOR_EVER = """
import sys
import raygrad as rg
number = 0
while True:
    number += 1
    rg.save({"number": number, "x": rg.full((20_000,), float(number))}, sys.argv[1])
    print(number, flush=True)
"""


def test_whenever_a_writer_is_killed_there_is_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for kill_after in (1, 2, 5):
        with subprocess.Popen([sys.executable, "-c", SAVES_FOR_EVER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            last = 0
            for _ in range(kill_after):
                last = int(writer.stdout.readline())
            writer.kill()
        found = rg.load(path)
        assert found["number"] >= last
        assert found["x"].tolist() == [found["number"]] * 20_000


def test_the_part_of_a_writer_that_lives_is_left_alone(tmp_path: Path) -> None:
    with replaced_file(str(tmp_path / "file")) as part:
        Path(part).write_text("one")
        rg.save(2, tmp_path / "file")
        assert Path(part).read_text() == "one"
    assert (tmp_path / "file").read_text() == "one"


def test_content_is_on_the_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(atomic_file.os, "fsync", lambda handle: (events.append("fsync"), real_sync(handle))[1])
    monkeypatch.setattr(atomic_file.os, "replace", lambda a, b: (events.append("replace"), real_replace(a, b))[1])
    rg.save(1, tmp_path / "file")
    assert events == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_an_error_of_the_disk_leaves_the_old_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    rg.save("old", tmp_path / "file")
    with monkeypatch.context() as patched:
        patched.setattr(atomic_file.os, name, full)
        with pytest.raises(OSError, match="No space left"):
            rg.save("new", tmp_path / "file")
    assert rg.load(tmp_path / "file") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link_and_a_mode_stays(tmp_path: Path) -> None:
    rg.save(1, tmp_path / "file")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    rg.save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert rg.load(tmp_path / "file") == 2
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


WRITES_TOO_MUCH = """
import errno, resource, sys
import raygrad as rg
rg.save("old", sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    rg.save(rg.ones(10_000), sys.argv[1])
except OSError as error:
    sys.exit(0 if error.errno == errno.EFBIG else str(error))
sys.exit("no error")
"""


def test_a_file_that_cannot_be_written_to_its_end_leaves_the_old_one_and_names_the_systems_error(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITES_TOO_MUCH, str(tmp_path / "file")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rg.load(tmp_path / "file") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
