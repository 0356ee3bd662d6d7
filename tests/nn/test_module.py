"""Modules: what they register, their state, modes and hooks, and training with them eagerly and in sessions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad import nn


class Net(nn.Module):
    """A small network with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.25), nn.Linear(4, 2))
        self.scale = nn.Parameter(rg.ones(2))
        self.register_buffer("seen", rg.zeros(1))
        self.register_buffer("scratch", rg.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.body(x) * self.scale


NAMES = ["scale", "body.0.weight", "body.0.bias", "body.3.weight", "body.3.bias"]


def test_names_are_those_of_pytorch():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    assert list(net.state_dict()) == ["scale", "seen", *NAMES[1:]]
    assert [name for name, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "body.2", "body.3"]
    assert isinstance(net.scale, nn.Parameter)
    assert not isinstance(rg.ones(2, requires_grad=True), nn.Parameter)


@pytest.mark.oracle
def test_names_and_texts_of_the_same_program_under_torch():
    torch = pytest.importorskip("torch")
    described: list[Any] = []
    for T in (rg, torch):
        net = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.ReLU(), T.nn.Sequential(T.nn.Linear(4, 2, bias=False)))
        described.append((repr(net), list(net.state_dict()), [tuple(p.shape) for p in net.parameters()]))
    assert described[0] == described[1]


def test_values_are_those_of_torch_with_its_state():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    ours = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    loaded = ours.load_state_dict({name: rg.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    assert loaded == ([], [])
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    labels = np.array([0, 1, 1, 0, 1])
    losses = [T.nn.CrossEntropyLoss()(net(T.tensor(x)), T.tensor(labels)) for T, net in ((rg, ours), (torch, theirs))]
    for loss in losses:
        loss.backward()
    np.testing.assert_allclose(losses[0].item(), losses[1].item(), rtol=1e-6)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-6)


def trained(steps: int = 4) -> list[bytes]:
    """The parameters after a few steps, and the loss."""
    rg.manual_seed(3)
    net, x, y = Net(), rg.randn(8, 3), rg.randn(8, 2)
    optimiser, loss_of = rg.optim.Adam(net.parameters(), lr=0.05), nn.MSELoss()
    loss: Any = None
    for _ in range(steps):
        optimiser.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimiser.step()
        with rg.no_grad():
            net.seen += 1
    return [tensor.detach().numpy().tobytes() for tensor in (*net.state_dict().values(), loss)]


def test_a_session_trains_to_the_bits_of_the_eager_run():
    eager = trained()
    with rg.Session():
        assert trained() == eager


def test_a_session_tracks_a_module(tmp_path):
    with rg.Session() as session:
        net = Net()
        session.track(net=net)
        before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
        session.save(tmp_path / "state")
        with rg.no_grad():
            for parameter in net.parameters():
                parameter.zero_()
        session.load(tmp_path / "state")
        for name, value in net.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[name])


def test_modes_and_gradients():
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    x = rg.ones(2, 3)
    assert net(x).tolist() == net(x).tolist()
    net.train()(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(x).requires_grad


def test_hooks_see_and_replace_arguments_and_results():
    layer = nn.Identity()
    before = layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    after = layer.register_forward_hook(lambda module, args, result: result * 10)
    assert layer(rg.tensor(1.0)).item() == 20
    before.remove()
    assert layer(rg.tensor(1.0)).item() == 10
    after.remove()
    assert layer(rg.tensor(1.0)).item() == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
def test_copies_are_modules_of_their_own(copied: Any):
    net = Net()
    other = copied(net)
    assert isinstance(other.scale, nn.Parameter)
    with rg.no_grad():
        other.scale.zero_()
    assert net.scale.tolist() == [1, 1]
    assert [name for name, _ in other.named_parameters()] == NAMES


def test_a_state_that_does_not_fit_is_refused_and_nothing_is_copied():
    net = Net()
    state = {**net.state_dict(), "scale": rg.zeros(3), "other": rg.zeros(1)}
    state["body.0.bias"] = rg.full((4,), 9.0)
    del state["seen"]
    with pytest.raises(RuntimeError, match="size mismatch for scale") as caught:
        net.load_state_dict(state)
    assert "Unexpected key(s) in state_dict: other" in str(caught.value)
    assert "Missing key(s) in state_dict: seen" in str(caught.value)
    assert net.state_dict()["body.0.bias"].tolist() != [9.0] * 4
    del state["scale"]
    assert net.load_state_dict(state, strict=False) == (["scale", "seen"], ["other"])


def test_misuse_is_told():
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Identity()

    net = Net()
    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        net.scale = rg.ones(2)  # pyright: ignore[reportAttributeAccessIssue]
    made: Any = nn.Parameter(rg.ones(2)) * 2
    made._is_param = True
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("other", made)
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()()
    with pytest.raises(AttributeError, match="no attribute 'weigth'"):
        _ = nn.Linear(2, 2).weigth
    with pytest.raises(AttributeError, match="no attribute 'Conv2d'"):
        _ = getattr(nn, "Conv2d")  # noqa: B009
