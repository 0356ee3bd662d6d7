"""Fourier transforms."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

from ..inputs import complex_, family, ints, real

add = family("fft")


def _of(name: str, *args: Any, **options: Any) -> Any:
    return lambda T, x: getattr(T.fft, name)(x, *args, **options)


for _norm in (None, "forward", "ortho"):
    for _name in ("fft", "ifft"):
        add(f"{_name}-{_norm}", _of(_name, norm=_norm), complex_(4))
    for _name in ("rfft", "ihfft"):
        for _n in (3, 4):
            add(f"{_name}-{_n}-{_norm}", _of(_name, norm=_norm), real(2, _n))
    for _name in ("irfft", "hfft"):
        for _n in (None, 5):
            add(f"{_name}-{_n}-{_norm}", _of(_name, _n, norm=_norm), complex_(2, 3))
for _n in (2, 3, 5):
    add(
        f"fft-n{_n}",
        lambda T, x, n=_n: (T.fft.fft(x, n), T.fft.ifft(x, n, 0), T.fft.rfft(x.real, n, 0)),
        complex_(3, 2),
    )
    add(f"irfft-n{_n}", lambda T, x, n=_n: (T.fft.irfft(x, n), T.fft.hfft(x, n, 0)), complex_(3, 2))
add("fft-of-real", lambda T, x: (T.fft.fft(x), T.fft.ifft2(x), T.fft.irfft(x)), real(2, 3))
add("fft-of-ints", lambda T, x: (T.fft.fft(x), T.fft.rfft(x)), ints(4, 3), order=0)
for _name in ("fft2", "ifft2", "fftn", "ifftn"):
    add(_name, _of(_name), complex_(2, 3))
for _name in ("rfft2", "rfftn"):
    add(_name, _of(_name), real(2, 3))
for _name in ("irfft2", "irfftn"):
    add(_name, _of(_name), complex_(2, 3))
add(
    "fftn-some",
    lambda T, x: (T.fft.fftn(x, (3,), (1,)), T.fft.fftn(x, (2, 4), norm="ortho"), T.fft.ifftn(x, dim=(0, -1))),
    complex_(2, 2, 3),
)
add(
    "rfftn-some",
    lambda T, x: (T.fft.rfftn(x, (3, 2), (0, 1)), T.fft.rfftn(x, dim=(2,)), T.fft.irfftn(x, (3, 4))),
    real(2, 2, 3),
)
add(
    "fftshift",
    lambda T, x: (T.fft.fftshift(x), T.fft.ifftshift(x), T.fft.fftshift(x, 0), T.fft.ifftshift(x, (1,))),
    real(3, 4),
)
add("fftfreq", lambda T, x: (T.fft.fftfreq(5, 0.5), T.fft.rfftfreq(4), x), ints(2, 1), order=0)
