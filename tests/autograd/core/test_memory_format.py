"""Memory formats: the order of axes that conversions, copies and questions name."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg

IMAGES = np.arange(24.0).reshape(1, 2, 3, 4)


def test_images_are_laid_out_with_their_channels_last():
    x = rg.tensor(IMAGES, requires_grad=True)
    for laid in (
        x.to(memory_format=rg.channels_last),
        x.contiguous(memory_format=rg.channels_last),
        x.clone(memory_format=rg.channels_last),
        x.double(memory_format=rg.channels_last),
    ):
        assert laid.stride() == (24, 1, 8, 2)
        assert laid.is_contiguous(memory_format=rg.channels_last)
        assert not laid.is_contiguous()
        np.testing.assert_array_equal(laid.detach().numpy(), IMAGES)
        (grad,) = rg.autograd.grad((laid * laid).sum(), x)
        np.testing.assert_array_equal(grad.numpy(), 2 * IMAGES)


def test_a_tensor_that_lies_so_already_is_returned_as_it_is():
    laid = rg.tensor(IMAGES).to(memory_format=rg.channels_last)
    assert laid.to(memory_format=rg.channels_last) is laid
    assert laid.to(memory_format=rg.preserve_format) is laid
    assert laid.contiguous().stride() == (24, 12, 4, 1)
    assert laid.float(memory_format=rg.contiguous_format).is_contiguous()


def test_volumes_have_a_format_of_their_own():
    x = rg.zeros(1, 2, 3, 4, 5).to(memory_format=rg.channels_last_3d)
    assert x.stride() == (120, 1, 40, 10, 2)
    assert not rg.zeros(2, 3).is_contiguous(memory_format=rg.channels_last)


def test_a_session_lays_out_pending_values():
    with rg.Session():
        x = rg.tensor(IMAGES, requires_grad=True)
        laid = (x * 2).to(memory_format=rg.channels_last)
        laid.sum().backward()
        assert laid.is_contiguous(memory_format=rg.channels_last)
        np.testing.assert_array_equal(laid.detach().numpy(), 2 * IMAGES)


def test_a_format_for_another_number_of_dimensions_is_refused():
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        rg.zeros(2, 3).to(memory_format=rg.channels_last)
    with pytest.raises(TypeError, match="memory_format"):
        rg.zeros(2, 3).to(memory_format="channels_last")
