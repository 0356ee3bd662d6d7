"""Functions for neural networks that PyTorch has as names of the package, too: `raygrad.conv1d`, `raygrad.layer_norm`.

Most are those of `raygrad.nn.functional`. Of some PyTorch has other parameters there, or another order of them, so they
are functions of their own here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raygrad.errors import ShapeError

from . import (
    convolution,
    distances,
    dropout as dropouts,
    embedding as images,
    in_place_functions,
    margin_losses,
    normalization,
    pooling,
    rectifiers,
)

PUBLIC = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout alpha_dropout_ avg_pool1d batch_norm celu celu_
    channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity dropout_
    embedding
    feature_alpha_dropout feature_alpha_dropout_ group_norm hardshrink instance_norm layer_norm max_pool1d
    max_pool1d_with_indices max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm
    rrelu rrelu_ selu selu_ threshold threshold_
""".split()

conv1d, conv2d, conv3d = convolution.conv1d, convolution.conv2d, convolution.conv3d
conv_transpose1d, conv_transpose2d = convolution.conv_transpose1d, convolution.conv_transpose2d
conv_transpose3d = convolution.conv_transpose3d
avg_pool1d, adaptive_avg_pool1d = pooling.avg_pool1d, pooling.adaptive_avg_pool1d
max_pool1d, max_pool2d, max_pool3d = pooling.max_pool1d, pooling.max_pool2d, pooling.max_pool3d
pixel_shuffle, pixel_unshuffle, channel_shuffle = images.pixel_shuffle, images.pixel_unshuffle, images.channel_shuffle
celu, selu, prelu, rrelu = rectifiers.celu, rectifiers.selu, rectifiers.prelu, rectifiers.rrelu
hardshrink, threshold = rectifiers.hardshrink, rectifiers.threshold
celu_, selu_, rrelu_ = in_place_functions.celu_, in_place_functions.selu_, in_place_functions.rrelu_
threshold_, dropout_ = in_place_functions.threshold_, in_place_functions.dropout_
alpha_dropout, alpha_dropout_ = dropouts.alpha_dropout, in_place_functions.alpha_dropout_
feature_alpha_dropout = dropouts.feature_alpha_dropout
feature_alpha_dropout_ = in_place_functions.feature_alpha_dropout_
cosine_similarity, pairwise_distance, pdist = (
    distances.cosine_similarity,
    distances.pairwise_distance,
    margin_losses.pdist,
)
rms_norm = normalization.rms_norm


def adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Any, ...]:
    """Return the greatest element of as many parts of the last dimension as are wanted, and where they were."""
    return pooling.adaptive_max_pool1d(input, output_size, True)


def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Any, ...]:
    """Return the greatest element of each window of the last dimension, and where they were."""
    return pooling.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def embedding(weight: Any, indices: Any, padding_idx: int = -1) -> Any:
    """Return the rows of `weight` that `indices` name; that of `padding_idx`, counted from the first, gets no
    gradient."""
    return images.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """Return `input` normalised over its last dimensions, `normalized_shape`; `cudnn_enable` is a permission."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """Return `input` normalised over groups of its channels; `cudnn_enabled` is a permission."""
    return normalization.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Return `input` normalised per channel; `cudnn_enabled` is a permission. See `nn.functional.batch_norm`."""
    return normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Return `input` normalised per channel of each example; `cudnn_enabled` is a permission. See
    `nn.functional.instance_norm`.

    Raises:
        ShapeError: there is no dimension behind the channels.
    """
    if input.ndim < 3:
        raise ShapeError(f"instance_norm: expected a batch, channels and at least one more dimension, got {input.ndim}")
    return normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
