"""The file in which a worker keeps what it has spilled."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import pack_values, unpack_values
from raygrad.proto.ir.array_layout import layout_of
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.spill_file import SpillFile


def test_a_value_comes_back_with_its_bits_and_its_layout() -> None:
    file = SpillFile()
    values: list[Any] = [
        np.arange(3000.0).reshape(50, 60).T,
        np.broadcast_to(np.arange(2000.0), (4, 2000)),
        np.array([np.nan, -0.0]),
        np.zeros((0, 3), np.float32),
    ]
    spilled = [file.write(pack_values([value])) for value in values]
    for value, one in zip(values, spilled, strict=True):
        (back,) = unpack_values(one.read())
        assert (back.dtype, back.shape, layout_of(back)) == (value.dtype, value.shape, layout_of(value))
        assert back.tobytes() == value.tobytes()
        assert not back.flags.writeable


def test_the_room_of_a_value_that_nobody_holds_is_used_again() -> None:
    file = SpillFile()
    held: list[Any] = [file.write(pack_values([np.full(10_000, float(number))])) for number in range(4)]
    length = file.size
    assert file.used == length == 4 * 80_000
    held[1] = None
    gc.collect()
    assert (file.used, file.size) == (3 * 80_000, length)
    held[1] = file.write(pack_values([np.full(5_000, 7.0)]))
    assert file.size == length
    for number in (0, 2, 3):
        assert unpack_values(held[number].read())[0][0] == number
    held.clear()
    gc.collect()
    assert (file.size, file.used) == (0, 0), "at once, without anybody asking"


def test_nothing_of_it_has_a_name(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spilled = SpillFile().write(pack_values([np.ones(10_000)]))
    assert os.listdir(tmp_path) == []
    assert unpack_values(spilled.read())[0].sum() == 10_000


def test_a_disk_that_cannot_be_written_to_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(ExecutionError, match=r"could not be spilled to '/nowhere'.*set TMPDIR"):
        SpillFile().write(pack_values([np.ones(10_000)]))


@pytest.mark.parametrize("end", [0, 4096])
def test_a_value_whose_file_was_cut_is_named_and_not_waited_for(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    real = os.preadv

    def cut(descriptor: int, buffers: Any, offset: int) -> int:
        return real(descriptor, [buffers[0][: max(end - offset, 0)]], offset) if offset < end else 0

    region = SpillFile().write(pack_values([np.arange(3000.0)]))
    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(ExecutionError, match="cut"):
        region.read()


def test_a_value_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    region = SpillFile().write(pack_values([np.arange(3000.0)]))
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(ExecutionError, match="could not be read"):
        region.read()


def test_a_host_spills_what_is_undefined_as_such() -> None:
    host = WorkerHost("worker 0")
    assert host.values.load(host.values.spill_slot([None], 0)) is None
    assert host.values.load(host.values.spill_slot([np.arange(3)], 0)).tolist() == [0, 1, 2]


def test_a_part_may_die_while_its_thread_writes() -> None:
    file = SpillFile()
    held: list[Any] = [file.write(pack_values([np.full(10_000, float(number))])) for number in range(2)]
    with file._lock:  # as when cyclic garbage is collected within a write
        held.clear()
    assert file.used == 0
    again = file.write(pack_values([np.ones(10_000)]))
    assert file.size == 80_000
    assert unpack_values(again.read())[0].sum() == 10_000


def test_parts_are_given_out_and_back_by_several_threads() -> None:
    file, errors = SpillFile(), list[BaseException]()

    def work(number: int) -> None:
        try:
            for size in range(1, 150):
                one, other = (file.write(pack_values([np.full(8 * size, float(number + k))])) for k in (0, 10))
                assert (unpack_values(one.read())[0] == number).all()
                assert (unpack_values(other.read())[0] == number + 10).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, file.used) == ([], 0)
