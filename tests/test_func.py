"""`raygrad.func`: the names of `torch.func` that raygrad has, and no others."""

from __future__ import annotations

import raygrad as rg
from raygrad.autograd import transforms


def test_it_is_a_name_of_the_package() -> None:
    import raygrad.func

    assert rg.func is raygrad.func


def test_it_offers_every_transform() -> None:
    for name in transforms.__all__:
        assert name in rg.func.__all__
        assert getattr(rg.func, name) is getattr(transforms, name)


def test_vmap_is_one_function_under_both_names():
    assert rg.func.vmap is rg.vmap
