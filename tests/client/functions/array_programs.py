"""Programs whose Functions look at the memory of the arrays that they are given: strides, byte order, alignment."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays of one kind each, by name."""
    base = np.random.default_rng(3).normal(size=(40, 30))
    raw = np.zeros(8 * 6 + 1, np.uint8)
    unaligned = raw[1:].view(np.float64)
    unaligned[:] = base[0, :6]
    windows = np.lib.stride_tricks.sliding_window_view(base[0], 7)
    return {
        "C": base,
        "Fortran": np.asfortranarray(base),
        "rows left out": base[::3],
        "columns left out": base[:, 1:20:2],
        "a column": base[:, 4],
        "backwards": base[::-1, ::-2],
        "axes exchanged with gaps": base.reshape(40, 5, 6).transpose(2, 0, 1)[:, ::2],
        "repeated": np.broadcast_to(base[:, :1], (40, 30)),
        "one row repeated": np.broadcast_to(base[0], (40, 30)),
        "one number repeated": np.broadcast_to(base[0, 0], (4, 3)),
        "windows": windows,
        "big-endian": base.astype(">f8"),
        "big-endian with gaps": base.astype(">f4")[:, ::2],
        "big-endian integers": np.arange(12).astype(">i4").reshape(3, 4),
        "unaligned": unaligned,
        "empty with gaps": base[::2, 3:3],
        "of no axes": np.array(3.5),
        "complex parts": (base + 1j * base).imag,
        "a field": np.rec.fromarrays([base[0], base[1]], names="a,b")["a"],  # pyright: ignore[reportArgumentType]
    }


def looks(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return what a Function can see of an array."""
    bits = (array.sum().tobytes(), (array @ array.T if array.ndim == 2 else array).tobytes())
    return array.shape, array.strides if array.size else (), array.dtype.str, array.flags.aligned, bits


CAPTURED = arrays()
SEEN: list[tuple[str, Any]] = []


class Looks(rg.autograd.Function):
    """Emits what it sees of an array as an argument, in a list, captured, and as an attribute of ctx in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, name: str, array: Any, nested: Any) -> Any:
        ctx.name, ctx.array, ctx.nested = name, array, nested
        rg.emit("looks", (name, "argument", looks(array)))
        rg.emit("looks", (name, "nested", looks(nested["it"][0])))
        rg.emit("looks", (name, "captured", looks(CAPTURED[name])))
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("looks", (ctx.name, "ctx", looks(ctx.array)))
        rg.emit("looks", (ctx.name, "ctx nested", looks(ctx.nested["it"][0])))
        return grad * 2, None, None, None


def differences(session: Any) -> list[str]:
    """Return in which array, and where, a Function of an open session sees something else than is there."""
    wrong: list[str] = []
    seen: list[Any] = []
    session.on("looks", seen.append)
    for name, array in CAPTURED.items():
        for _ in range(2):
            x: Any = rg.ones(2, requires_grad=True)
            Looks.apply(x, name, array, {"it": [array]}).sum().backward()
            _ = x.grad.tolist()
    for name, where, found in seen:
        expected = looks(CAPTURED[name])
        if found != expected:
            wrong.append(f"{name} ({where}): {found[:4]}, not {expected[:4]}")
    if len(seen) != 10 * len(CAPTURED):
        wrong.append(f"{len(seen)} looks")
    return wrong
