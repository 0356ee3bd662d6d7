"""Files of raygrad are safetensors files: other programs read them and write others; damage is found."""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import raygrad as rg
from raygrad.errors import BackendUnavailable, LoadError

VALUE = {"model": [{"weight": rg.arange(6.0).reshape(2, 3), "bias": rg.tensor([0.5])}], "epoch": 3}


def test_other_programs_find_the_tensors_by_their_keys(tmp_path: Path) -> None:
    rg.save({**VALUE, "F": np.asfortranarray(np.eye(2, 3))}, tmp_path / "file")
    found = safetensors.numpy.load_file(tmp_path / "file")
    assert sorted(found) == ["F", "model.0.bias", "model.0.weight"]
    assert found["model.0.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["F"].tolist() == np.eye(2, 3).tolist()


def test_a_file_of_another_program_is_a_dict_of_tensors(tmp_path: Path) -> None:
    arrays = {"w": np.arange(3.0), "z": np.array([1j], np.complex64), "b": np.array(True), "e": np.zeros((0, 2), "f2")}
    safetensors.numpy.save_file(arrays, tmp_path / "file", {"format": "pt"})
    found = rg.load(tmp_path / "file")
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        assert isinstance(found[name], rg.Tensor)
        assert not found[name].requires_grad
        assert found[name].numpy().tobytes() == array.tobytes()
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)


def raw(path: Path, **tensors: tuple[str, list[int], bytes]) -> None:
    """Write a safetensors file by hand."""
    head: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def test_bfloat16_of_another_program_comes_as_float32(tmp_path: Path) -> None:
    raw(tmp_path / "file", w=("BF16", [2, 1], struct.pack("<HH", 0x3FC0, 0xC000)), x=("F32", [1], b"\0\0\x80?"))
    found = rg.load(tmp_path / "file")
    assert found["w"].tolist() == [[1.5], [-2.0]]
    assert found["w"].dtype == rg.float32
    assert found["x"].tolist() == [1.0]


@pytest.mark.parametrize(("code", "data"), [("F8_E4M3", b"\0"), ("U32", b"\0\0\0\0")])
def test_a_dtype_that_tensors_lack_is_named_with_its_tensor(code: str, data: bytes, tmp_path: Path) -> None:
    raw(tmp_path / "file", odd=(code, [1], data))
    with pytest.raises(LoadError, match=r"'odd'.*dtype"):
        rg.load(tmp_path / "file")


@pytest.mark.slow
def test_a_byte_that_changed_anywhere_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    rg.save(VALUE, path)
    whole = path.read_bytes()
    accepted: list[int] = []
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            rg.load(path)
        except LoadError:
            continue
        accepted.append(place)
    assert not accepted, [whole[max(0, place - 5) : place + 5] for place in accepted]


def test_a_file_that_was_cut_short_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    rg.save(VALUE, path)
    whole = path.read_bytes()
    for length in (*range(0, len(whole), 23), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(LoadError, match="older copy"):
            rg.load(path)


def test_files_of_other_formats_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    np.savez(archive := io.BytesIO(), a=np.ones(2))
    np.save(single := io.BytesIO(), np.ones(2))
    for content, message in (
        (archive.getvalue(), "torch.save or numpy.savez"),
        (single.getvalue(), r"numpy\.load"),
        (pickle.dumps({"a": 1}), "runs no code"),
        (b"some text that is longer than eight bytes", "no whole safetensors file"),
        (b"", "no whole safetensors file"),
    ):
        path.write_bytes(content)
        with pytest.raises(LoadError, match=message):
            rg.load(path)


def test_a_later_version_is_named(tmp_path: Path) -> None:
    safetensors.numpy.save_file({}, tmp_path / "file", {"raygrad": "[2, 0, {}]", "raygrad.structure": "{}"})
    with pytest.raises(LoadError, match="version 2"):
        rg.load(tmp_path / "file")


def test_without_the_library_an_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: rg.save(1, tmp_path / "file"), lambda: rg.load(tmp_path / "file")):
        with pytest.raises(BackendUnavailable, match="pip install safetensors"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.oracle
def test_torch_reads_what_is_saved_and_the_other_way_round(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    rg.save({"w": rg.arange(3.0), "z": rg.tensor([1j], dtype=rg.complex64)}, tmp_path / "ours")
    found = load_file(tmp_path / "ours")
    assert found["w"].tolist() == [0, 1, 2]
    assert found["z"].tolist() == [1j]
    save_file({"w": torch.arange(3.0), "h": torch.tensor([1.5], dtype=torch.bfloat16)}, tmp_path / "theirs")
    assert {name: one.tolist() for name, one in rg.load(tmp_path / "theirs").items()} == {"w": [0, 1, 2], "h": [1.5]}
