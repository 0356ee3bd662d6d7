"""Methods about shape, dtype, and what a tensor is."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import pytest

import raygrad as rg


def test_sizes_come_one_by_one_or_together(T):
    x = T.arange(6)
    assert x.reshape(2, 3).shape == x.reshape((2, 3)).shape == x.view([2, -1]).shape == (2, 3)
    y = x.reshape(1, 2, 3)
    assert y.permute(2, 0, 1).shape == y.permute((2, 0, 1)).shape == (3, 1, 2)
    assert y.expand(4, 2, 3).shape == y.expand((4, -1, 3)).shape == (4, 2, 3)
    assert y.flip(0, 1).tolist() == y.flip((0, 1)).tolist()
    assert y.repeat(2, 1, 1).shape == y.repeat((2, 1, 1)).shape == (2, 2, 3)


def test_names_of_transposition(T):
    x = T.arange(6).reshape(2, 3)
    assert x.T.shape == x.mT.shape == x.t().shape == x.transpose(0, 1).shape == x.swapaxes(0, -1).shape == (3, 2)
    assert x.H.tolist() == x.T.tolist()
    assert T.tensor(1.0).t().shape == ()


def test_what_it_is(T):
    x = T.ones(2, 3, dtype=T.float64)
    assert (x.size(), x.size(-1), x.dim(), x.ndimension(), x.numel(), x.nelement()) == ((2, 3), 3, 2, 2, 6, 6)
    assert x.element_size() == 8
    assert x.is_floating_point()
    assert not x.is_complex()
    assert T.tensor(1j).is_complex()
    assert x.stride() == (3, 1)
    assert x.T.stride(0) == 1
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    assert x.contiguous() is x
    assert x.T.contiguous().is_contiguous()
    assert x.equal(T.ones(2, 3, dtype=T.float64))
    assert not x.equal(T.ones(3))


def test_dtypes_by_name(T):
    x = T.tensor([0.0, 1.7])
    for name, dtype in {
        "double": T.float64, "float": T.float32, "half": T.float16, "long": T.int64, "int": T.int32, "short": T.int16,
        "bool": T.bool, "cfloat": T.complex64, "cdouble": T.complex128,
    }.items():  # fmt: skip
        assert getattr(x, name)().dtype == dtype
    assert x.long().tolist() == [0, 1]
    assert x.bool().tolist() == [False, True]


def test_to(T):
    x = T.tensor([1.0])
    assert x.to(T.float32) is x
    assert x.to("cpu") is x
    assert x.to(T.float32, copy=True) is not x
    assert x.to(dtype=T.float64).dtype == T.float64
    assert x.to("cpu", T.int64).dtype == T.int64
    assert x.to(T.tensor(1)).dtype == T.int64
    assert x.type(T.float64).dtype == x.type_as(T.ones(1, dtype=T.float64)).dtype == T.float64
    assert x.cpu() is x
    assert x.float() is x


def test_a_device_that_is_not_here_is_refused():
    with pytest.raises(RuntimeError, match="cuda:0"):
        rg.ones(1).to("cuda:0")


def test_gradients_pass_through_dtypes(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    (x.double() ** 2).sum().backward()
    assert x.grad.dtype == T.float32
    assert x.grad.tolist() == [2, 4]
    y = T.tensor([1.0], requires_grad=True)
    (y.to(T.complex64) * (2 + 1j)).real.sum().backward()
    assert y.grad.tolist() == [2]


def test_real_and_imag(T):
    z = T.tensor([1 + 2j])
    assert (z.real.tolist(), z.imag.tolist(), z.conj().tolist()) == ([1], [2], [1 - 2j])
    x = T.ones(1)
    assert x.real is x
    assert x.conj() is x
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        _ = x.imag


def test_errors_of_shapes(T):
    x = T.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"shape '\[4\]' is invalid for input of size 6"):
        x.reshape(4)
    with pytest.raises(RuntimeError, match=r"shape '\[4, -1\]' is invalid for input of size 6"):
        x.reshape(4, -1)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        x.view(-1, -1)
    with pytest.raises(RuntimeError, match="invalid shape dimension -2"):
        x.reshape(-2, 3)
    with pytest.raises(RuntimeError, match=r"ambiguous|cannot reshape"):
        T.ones(0).reshape(-1, 0)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.T.view(6)
    with pytest.raises(RuntimeError, match="The expanded size of the tensor"):
        x.expand(4, 3)
    with pytest.raises(RuntimeError, match="number of sizes provided"):
        x.expand(3)
    with pytest.raises(RuntimeError, match="number of dimensions in the tensor input does not match"):
        x.permute(0)
    with pytest.raises(RuntimeError, match=r"duplicate dims|repeated"):
        x.permute(0, 0)
    with pytest.raises(RuntimeError, match=r"t\(\) expects a tensor with <= 2 dimensions"):
        T.ones(1, 1, 1).t()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.squeeze(3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.unsqueeze(4)
    with pytest.raises(RuntimeError, match="start_dim cannot come after end_dim"):
        x.flatten(1, 0)
    with pytest.raises(RuntimeError, match="movedim"):
        x.movedim((0, 1), (0,))
    with pytest.raises(RuntimeError, match="shifts and dimensions must align"):
        x.roll((1, 2), (0,))


def test_errors_of_joining(T):
    with pytest.raises(
        RuntimeError, match=r"Sizes of tensors must match except in dimension 0\. Expected size 3 but got size 4"
    ):
        T.cat([T.ones(2, 3), T.ones(2, 4)])
    with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 0\) cannot be concatenated"):
        T.cat([T.tensor(1.0)])
    with pytest.raises(ValueError, match="expected a non-empty list of Tensors"):
        T.cat([])
    with pytest.raises(RuntimeError, match=r"expects each tensor to be equal size, but got \[2\] at entry 0 and \[3\]"):
        T.stack([T.ones(2), T.ones(3)])
    with pytest.raises(TypeError):
        T.cat([T.ones(2), 3])
    with pytest.raises(RuntimeError, match="split_sizes to sum exactly to 5"):
        T.ones(5).split([2, 2])
    with pytest.raises(RuntimeError, match="split_size"):
        T.ones(5).split(0)
    with pytest.raises(RuntimeError, match="chunks"):
        T.ones(5).chunk(0)
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        T.ones(5).narrow(0, 3, 3)
    with pytest.raises(RuntimeError, match="Number of dimensions of repeat dims"):
        T.ones(2, 2).repeat(2)
    with pytest.raises(RuntimeError, match="diagonal dimensions cannot be identical"):
        T.ones(2, 2).diagonal(0, 1, 1)
    with pytest.raises(RuntimeError):
        T.ones(2, 2, 2).diag()


def test_whether_to_wait_may_follow_the_device_which_pytorch_refuses():
    x = rg.ones(2)
    assert x.to("cpu", True) is x
    assert x.to("cpu", False, True) is not x
