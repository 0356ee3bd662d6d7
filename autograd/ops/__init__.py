"""The built-in ops, one file per family; each goes through the public registry.

The functions take tensors, or bare arrays (so that derivative rules run on both). `__all__` is what users see, also as
`raygrad.<name>`; the rest serves the engine.
"""

import sys

from .. import methods as _methods
from .. import operators as _operators
from .. import shape_methods as _shape_methods
from .activations import dropout as dropout
from .activations import elu as elu
from .activations import erf as erf
from .activations import gelu as gelu
from .activations import leaky_relu as leaky_relu
from .activations import log_softmax as log_softmax
from .activations import silu as silu
from .activations import softmax as softmax
from .activations import softplus as softplus
from .arithmetic import add as add
from .arithmetic import addcdiv as addcdiv
from .arithmetic import addcmul as addcmul
from .arithmetic import atan2 as atan2
from .arithmetic import clamp as clamp
from .arithmetic import clamp_max as clamp_max
from .arithmetic import clamp_min as clamp_min
from .arithmetic import div as div
from .arithmetic import floor_divide as floor_divide
from .arithmetic import fmod as fmod
from .arithmetic import hypot as hypot
from .arithmetic import lerp as lerp
from .arithmetic import logaddexp as logaddexp
from .arithmetic import maximum as maximum
from .arithmetic import minimum as minimum
from .arithmetic import mul as mul
from .arithmetic import pow as pow
from .arithmetic import remainder as remainder
from .arithmetic import sub as sub
from .compare import bitwise_and as bitwise_and
from .compare import bitwise_not as bitwise_not
from .compare import bitwise_or as bitwise_or
from .compare import bitwise_xor as bitwise_xor
from .compare import eq as eq
from .compare import ge as ge
from .compare import gt as gt
from .compare import isfinite as isfinite
from .compare import isinf as isinf
from .compare import isnan as isnan
from .compare import keep as keep
from .compare import le as le
from .compare import logical_and as logical_and
from .compare import logical_not as logical_not
from .compare import logical_or as logical_or
from .compare import logical_xor as logical_xor
from .compare import lt as lt
from .compare import masked_fill as masked_fill
from .compare import ne as ne
from .compare import where as where
from .diagonals import diag as diag
from .diagonals import diagonal as diagonal
from .diagonals import pad as pad
from .diagonals import put_diagonal as put_diagonal
from .diagonals import tril as tril
from .diagonals import triu as triu
from .einsum import einsum as einsum
from .extremes import all as all
from .extremes import amax as amax
from .extremes import amin as amin
from .extremes import any as any
from .extremes import argmax as argmax
from .extremes import argmin as argmin
from .extremes import argsort as argsort
from .extremes import max as max
from .extremes import min as min
from .extremes import sort as sort
from .extremes import topk as topk
from .gathering import gather as gather
from .gathering import index_add as index_add
from .gathering import index_select as index_select
from .gathering import scatter as scatter
from .gathering import scatter_add as scatter_add
from .gathering import scatter_zeros as scatter_zeros
from .gathering import take_along_dim as take_along_dim
from .indexing import getitem as getitem
from .indexing import nonzero as nonzero
from .indexing import put_region as put_region
from .indexing import take_apart as take_apart
from .indexing import with_item as with_item
from .indexing import write_item as write_item
from .indexing import zeros_around as zeros_around
from .joining import cat as cat
from .joining import chunk as chunk
from .joining import concat as concat
from .joining import concatenate as concatenate
from .joining import hstack as hstack
from .joining import narrow as narrow
from .joining import repeat as repeat
from .joining import repeat_interleave as repeat_interleave
from .joining import select as select
from .joining import split as split
from .joining import stack as stack
from .joining import tile as tile
from .joining import unbind as unbind
from .joining import vstack as vstack
from .layouts import copy_in_order as copy_in_order
from .layouts import in_order_data as in_order_data
from .layouts import ones_as as ones_as
from .layouts import ones_of as ones_of
from .layouts import to_dtype as to_dtype
from .linear import addmm as addmm
from .linear import bmm as bmm
from .linear import dot as dot
from .linear import linear as linear
from .linear import matmul as matmul
from .linear import mm as mm
from .linear import mv as mv
from .linear import outer as outer
from .linear import trace as trace
from .losses import cross_entropy as cross_entropy
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .losses import nll_loss as nll_loss
from .losses import one_hot as one_hot
from .reduce import cumsum as cumsum
from .reduce import logsumexp as logsumexp
from .reduce import mean as mean
from .reduce import norm as norm
from .reduce import prod as prod
from .reduce import std as std
from .reduce import sum as sum
from .reduce import var as var
from .shape import broadcast_to as broadcast_to
from .shape import clone as clone
from .shape import contiguous as contiguous
from .shape import expand as expand
from .shape import expand_as as expand_as
from .shape import flatten as flatten
from .shape import flip as flip
from .shape import moveaxis as moveaxis
from .shape import movedim as movedim
from .shape import permute as permute
from .shape import reshape as reshape
from .shape import resolved as resolved
from .shape import roll as roll
from .shape import squeeze as squeeze
from .shape import swapaxes as swapaxes
from .shape import swapdims as swapdims
from .shape import t as t
from .shape import transpose as transpose
from .shape import unflatten as unflatten
from .shape import unsqueeze as unsqueeze
from .shape import view as view
from .unary import abs as abs
from .unary import acos as acos
from .unary import acosh as acosh
from .unary import asin as asin
from .unary import asinh as asinh
from .unary import atan as atan
from .unary import atanh as atanh
from .unary import ceil as ceil
from .unary import conj_of as conj
from .unary import cos as cos
from .unary import cosh as cosh
from .unary import exp as exp
from .unary import expm1 as expm1
from .unary import floor as floor
from .unary import imag as imag
from .unary import log as log
from .unary import log1p as log1p
from .unary import log2 as log2
from .unary import log10 as log10
from .unary import neg as neg
from .unary import real as real
from .unary import reciprocal as reciprocal
from .unary import relu as relu
from .unary import round as round
from .unary import rsqrt as rsqrt
from .unary import sgn as sgn
from .unary import sigmoid as sigmoid
from .unary import sign as sign
from .unary import sin as sin
from .unary import sinh as sinh
from .unary import sqrt as sqrt
from .unary import square as square
from .unary import tan as tan
from .unary import tanh as tanh
from .unary import trunc as trunc
from .unary import zeros_as as zeros_as

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bmm",
    "broadcast_to",
    "cat",
    "ceil",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "concat",
    "concatenate",
    "conj",
    "contiguous",
    "cos",
    "cosh",
    "cross_entropy",
    "cumsum",
    "diag",
    "diagonal",
    "div",
    "dot",
    "dropout",
    "einsum",
    "elu",
    "eq",
    "erf",
    "exp",
    "expand",
    "expand_as",
    "expm1",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "fmod",
    "gather",
    "ge",
    "gelu",
    "getitem",
    "gt",
    "hstack",
    "hypot",
    "imag",
    "index_add",
    "index_select",
    "isfinite",
    "isinf",
    "isnan",
    "l1_loss",
    "le",
    "leaky_relu",
    "lerp",
    "linear",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lt",
    "masked_fill",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mm",
    "moveaxis",
    "movedim",
    "mse_loss",
    "mul",
    "mv",
    "narrow",
    "ne",
    "neg",
    "nll_loss",
    "nonzero",
    "norm",
    "one_hot",
    "outer",
    "pad",
    "permute",
    "pow",
    "prod",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "repeat_interleave",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "select",
    "sgn",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take_along_dim",
    "tan",
    "tanh",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unbind",
    "unflatten",
    "unsqueeze",
    "var",
    "view",
    "vstack",
    "where",
]

_methods.ops = _shape_methods.ops = _operators.ops = sys.modules[__name__]
