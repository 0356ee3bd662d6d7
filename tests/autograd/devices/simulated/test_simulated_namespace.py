"""The stand-in's namespace: CuPy's names, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import use_stand_in


def test_its_namespace_has_what_cupy_has():
    with use_stand_in(1) as devices:
        xp: Any = devices.xp
        a = xp.asarray([3.0, 1.0])
        xp.add.at(a, xp.asarray([0, 0]), 1.0)
        assert a.tolist() == [5, 1]
        assert xp.add.reduce(a).item() == xp.sum(a).item() == 6
        assert xp.multiply.accumulate(a).tolist() == [5, 5]
        assert xp.linalg.norm(a).item() == pytest.approx(26**0.5)
        assert xp.fft.fft(a).shape == (2,)
        assert xp.float64 is np.float64
        assert xp.lib.stride_tricks.as_strided(a, (2, 2), (8, 0)).get().tolist() == [[5, 5], [1, 1]]
        for name, error in (("spacing", AttributeError), ("errstate", AttributeError)):
            with pytest.raises(error, match="no attribute"):
                getattr(xp, name)
        for part in (xp.linalg, xp.fft):
            with pytest.raises(AttributeError, match="no attribute"):
                part.nothing  # noqa: B018
        for method in (
            lambda: xp.maximum.reduce(a),
            lambda: xp.multiply.at(a, 0, 2),
            lambda: xp.logaddexp.accumulate(a),
        ):
            with pytest.raises(NotImplementedError, match="not supported yet"):
                method()
