"""`interop.torch.function`: modules and functions of torch as nodes, beside torch itself, in every kind of session."""

from __future__ import annotations

import math
import threading
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest

import raygrad as rg

torch: Any = pytest.importorskip("torch", reason="interop with torch: pip install 'raygrad[torch]'")


def network(dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    parts = [
        torch.nn.Linear(3, 4),
        torch.nn.BatchNorm1d(4),
        torch.nn.Dropout(dropout),
        torch.nn.ReLU(inplace=True),
        torch.nn.Linear(4, 2),
    ]
    return torch.nn.Sequential(*parts).double()


def data() -> Any:
    rg.manual_seed(1)
    return rg.randn(5, 3, dtype=rg.float64)


def theirs(tensor: Any) -> Any:
    return torch.from_numpy(tensor.detach().numpy().copy())


# ---- beside torch itself --------------------------------------------------------------------------------------------


def test_values_gradients_and_running_statistics_are_torchs_to_the_last_bit() -> None:
    module = network()
    node = rg.interop.torch.function(module)
    x = data().requires_grad_()
    xt = theirs(x).requires_grad_()
    for _ in range(2):
        y, yt = node(x), module(xt)
        assert y.detach().numpy().tobytes() == yt.detach().numpy().tobytes()
        (y * y).sum().backward()
        (yt * yt).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tobytes() == xt.grad.numpy().tobytes()
    for (name, ours), (known, parameter) in zip(node.named_parameters(), module.named_parameters(), strict=True):
        assert name == known
        assert ours.grad is not None
        assert ours.grad.numpy().tobytes() == parameter.grad.numpy().tobytes(), name
    assert [name for name, _ in node.named_buffers()] == [name for name, _ in module.named_buffers()]
    for (_, ours), buffer in zip(node.named_buffers(), module.buffers(), strict=True):
        assert ours.numpy().tobytes() == buffer.numpy().tobytes()


def test_the_module_is_left_alone_and_trained_values_go_back_into_it() -> None:
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    node = rg.interop.torch.function(module)
    optimizer = rg.optim.SGD(node.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        node(data()).sum().backward()
        optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    module.load_state_dict(node.state_dict())
    assert not torch.equal(module[0].weight, before["0.weight"])
    assert int(module[1].num_batches_tracked) == 3
    module.eval()
    assert node.eval()(data()).detach().numpy().tobytes() == module(theirs(data())).detach().numpy().tobytes()


def test_evaluation_mode_leaves_buffers_as_they_are() -> None:
    node = rg.interop.torch.function(network())
    assert node.training
    node(data())
    seen = [buffer.numpy().copy() for _, buffer in node.named_buffers()]
    assert not node.eval().training
    node(data() * 3.0)
    assert all(np.array_equal(a, b.numpy()) for a, (_, b) in zip(seen, node.named_buffers(), strict=True))
    node.train()(data())
    assert int(dict(node.named_buffers())["1.num_batches_tracked"]) == 2


def test_tied_parameters_are_one_leaf_and_frozen_ones_have_no_gradient() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Linear(3, 3, bias=False)
            self.two = torch.nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.two.bias.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.two(torch.tanh(self.one(x)))

    module = Tied().double()
    node = rg.interop.torch.function(module)
    assert [(name, p.requires_grad) for name, p in node.named_parameters()] == [
        ("one.weight", True),
        ("two.bias", False),
    ]
    node(data()).sum().backward()
    module(theirs(data())).sum().backward()
    weight, bias = node.parameters()
    assert weight.grad is not None
    assert np.array_equal(weight.grad.numpy(), module.one.weight.grad.numpy())
    assert bias.grad is None
    assert module.load_state_dict(node.state_dict())


# ---- what goes in and comes out -------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


def nested(batch: Any, scale: float, *, names: Any = None) -> Any:
    total = (batch["x"] * scale + batch["y"][0]).sum()
    return {"total": total, "pair": Pair(batch["x"] > 0, [batch["y"][0].int()]), "names": names, "none": None}


def test_arguments_and_results_nest_and_constants_pass() -> None:
    node = rg.interop.torch.function(nested)
    x = data().requires_grad_()
    out = node({"x": x, "y": (np.ones((5, 3)),)}, 2.0, names="all")
    assert list(out) == ["total", "pair", "names", "none"]
    assert (out["names"], out["none"], type(out["pair"])) == ("all", None, Pair)
    assert out["pair"].first.dtype == np.dtype(bool)
    assert not out["pair"].first.requires_grad
    assert out["pair"].second[0].dtype == np.dtype(np.int32)
    out["total"].backward()
    assert x.grad is not None
    assert np.all(x.grad.numpy() == 2.0)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128", "int64", "uint8", "bool"])
def test_dtypes_are_kept(name: str) -> None:
    node = rg.interop.torch.function(lambda x: (x, x.reshape(2, 1)))
    x = rg.from_numpy(np.array([1, 0]).astype(name))
    one, two = node(x)
    assert (one.dtype.name, two.dtype.name, two.shape) == (name, name, (2, 1))
    one[0] = 0  # memory of its own: neither the input's nor the other output's
    assert x.numpy()[0] == 1
    assert two.numpy()[0, 0] == 1


def test_layouts_of_arguments_do_not_matter() -> None:
    node = rg.interop.torch.function(lambda x: x * 2)
    for array in (np.arange(6.0).reshape(2, 3).T, np.broadcast_to(np.arange(3.0), (2, 3)), np.arange(12.0)[::2]):
        assert np.array_equal(node(rg.from_numpy(array.copy(order="K")).requires_grad_()).detach().numpy(), array * 2)
        assert np.array_equal(node(rg.tensor([1.0]).double().expand(4)).numpy(), [2.0] * 4)


def test_code_that_works_in_place_gets_a_copy() -> None:
    node = rg.interop.torch.function(lambda x, y: x.mul_(y).add_(1))
    x, y = data(), data().requires_grad_()
    before = x.numpy().copy()
    for _ in range(2):
        node(x, y).sum().backward()
        assert np.array_equal(x.numpy(), before)
    assert y.grad is not None
    assert np.array_equal(y.grad.numpy(), before * 2)
    node(y, x).sum().backward()  # also where torch would refuse it of a leaf
    assert np.array_equal(y.grad.numpy(), before * 3)


def test_changing_a_result_in_place_does_not_change_what_torch_saved() -> None:
    node = rg.interop.torch.function(lambda x: torch.exp(x))
    x = data().requires_grad_()
    y = node(x)
    with rg.no_grad():
        y *= 0.0
    y.sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad.numpy(), np.exp(x.detach().numpy()))


def test_an_output_without_influence_has_no_gradient() -> None:
    node = rg.interop.torch.function(lambda x, y: (x * 2, y.detach() * 3))
    x, y = data().requires_grad_(), data().requires_grad_()
    one, two = node(x, y)
    (one + two).sum().backward()
    assert x.grad is not None
    assert y.grad is None


# ---- derivatives ----------------------------------------------------------------------------------------------------


def smooth(x: Any, y: Any) -> Any:
    return torch.sin(x) * y, (x * y * y).sum()


def small() -> Any:
    return rg.tensor([0.5, -1.25], dtype=rg.float64, requires_grad=True)


@pytest.mark.parametrize("recompute", [False, True])
def test_gradcheck_of_a_function_to_second_order_and_in_forward_mode(recompute: bool) -> None:
    node = rg.interop.torch.function(smooth, recompute=recompute)
    x, y = small(), (small().detach() + 1.0).requires_grad_()
    assert rg.autograd.gradcheck(node, (x, y), check_forward_ad=True)
    assert rg.autograd.gradgradcheck(node, (x, y), check_fwd_over_rev=True)


def test_gradcheck_of_a_module_by_its_parameters() -> None:
    node = rg.interop.torch.function(
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)).double()
    )
    x = data().requires_grad_()

    def by_all(x: Any, *parameters: Any) -> Any:
        return node(x)

    assert rg.autograd.gradcheck(by_all, (x, *node.parameters()))
    assert rg.autograd.gradgradcheck(by_all, (x, *node.parameters()))


def test_third_derivatives_in_a_session() -> None:
    node = rg.interop.torch.function(smooth)
    found = []
    for session in (None, rg.Session(workers=2)):
        x, y = data().requires_grad_(), (data() + 1.0).requires_grad_()
        with session or rg.enable_grad():
            first = rg.autograd.grad(node(x, y)[0].sum(), x, create_graph=True)[0]
            second = rg.autograd.grad(first.sum(), x, create_graph=True)[0]
            third = rg.autograd.grad(second.sum(), x)[0].numpy()
        found.append(third)
        assert np.allclose(third, -(x.cos() * y).detach().numpy())
    assert found[0].tobytes() == found[1].tobytes()


# ---- sessions -------------------------------------------------------------------------------------------------------


def train(steps: int = 3, compiled: Any = None, **options: Any) -> list[bytes]:
    rg.manual_seed(7)
    node = rg.interop.torch.function(network(dropout=0.3), random=True, **options)
    optimizer = rg.optim.Adam(node.parameters(), lr=0.05)
    x = data()

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (node(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(step) if compiled else step
    losses = [run(x + float(number)) for number in range(steps)]
    values = [*losses, *node.parameters(), *[buffer for _, buffer in node.named_buffers()]]
    return [value.detach().numpy().tobytes() for value in values]


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"workers": 3}])
def test_training_with_dropout_and_running_statistics_is_the_same_in_a_session(options: dict[str, Any]) -> None:
    eager = train()
    assert train(recompute=True) == eager
    with rg.Session(**options):
        assert train() == eager
        assert train(recompute=True) == eager


def test_training_is_the_same_compiled() -> None:
    eager = train(steps=5)
    with rg.Session(workers=1) as session:
        assert train(5, session.compile) == eager


def test_h3_a_module_does_not_wait_to_be_known() -> None:
    node = rg.interop.torch.function(network())
    with rg.Session(workers=1) as session:
        loss = node(node(data() @ rg.ones(3, 3, dtype=rg.float64))[:, :1].expand(5, 3)).sum()
        loss.backward()
        assert "Sequential" not in session._observed.first_runs
        assert math.isfinite(loss.item())


def test_code_that_looks_at_values_is_known_by_running() -> None:
    node = rg.interop.torch.function(lambda x: x * 2 if x.sum() > 0 else x * 3)
    x = data().requires_grad_()
    with rg.Session(workers=1) as session:
        node(x * 0.0 + 1.0).sum().backward()
        assert node.function_class.__name__ in session._observed.first_runs
        assert x.grad is not None
        assert np.all(x.grad.numpy() == 0.0)


def test_a_shape_that_does_not_fit_is_torchs_own_error_at_the_call() -> None:
    node = rg.interop.torch.function(network())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        node(rg.ones(5, 7, dtype=rg.float64))
    with rg.Session(workers=1) as session:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            node(rg.ones(5, 7, dtype=rg.float64))
        session.close(discard=True)


def test_a_definition_made_anew_at_each_step_is_the_same_program() -> None:
    with rg.Session(workers=1) as session:
        for _ in range(3):
            node = rg.interop.torch.function(network())
            node(data()).sum().backward()
            session.run().wait()
        names = [name for name in session._observed.signatures if name[0]]
        assert len({name[0] for name in names}) == 1


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_random_numbers_without_a_seed_are_refused_and_leave_torchs_generator_alone() -> None:
    node = rg.interop.torch.function(network(dropout=0.5))
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="random=True"):
        node(data())
    assert torch.equal(torch.get_rng_state(), before)
    node.eval()(data())
    seeded = rg.interop.torch.function(network(dropout=0.5), random=True)
    seeded(data())
    assert torch.equal(torch.get_rng_state(), before)


def test_masks_follow_raygrads_seed() -> None:
    node = rg.interop.torch.function(lambda x: torch.nn.functional.dropout(x), random=True)
    drawn = []
    for seed in (3, 4, 3):
        rg.manual_seed(seed)
        drawn.append([node(rg.ones(64)).tolist() for _ in range(2)])
    assert drawn[0] == drawn[2]
    assert drawn[0] != drawn[1]
    assert drawn[0][0] != drawn[0][1]


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, spoil: bool = False) -> Any:
        self.calls = self.calls + 1  # bound anew, not changed
        if spoil:
            with torch.no_grad():
                self.weight.mul_(2)
        return x * self.weight


def test_a_buffer_that_is_bound_anew_counts_and_one_in_evaluation_must_not_change() -> None:
    node = rg.interop.torch.function(Counts())
    node(data())
    node(data())
    assert int(dict(node.named_buffers())["calls"]) == 2
    with pytest.raises(RuntimeError, match=r"buffer 'calls'.*\.train\(\)"):
        node.eval()(data())


def test_a_parameter_that_forward_changes_is_refused() -> None:
    node = rg.interop.torch.function(Counts())
    with pytest.raises(RuntimeError, match="parameter 'weight' in place"):
        node(data(), spoil=True)
    assert node.parameters()[0].tolist() == [1.0, 1.0, 1.0]


def test_what_would_have_no_gradient_is_refused() -> None:
    module = network()
    weight = torch.ones(3, requires_grad=True)
    for captures in (lambda x: module(x), module.forward, lambda x: x * weight):
        with pytest.raises(TypeError, match="captures"):
            rg.interop.torch.function(captures)
    node = rg.interop.torch.function(lambda x, y: x)
    with pytest.raises(TypeError, match="requires grad"):
        node(data(), weight)
    with pytest.raises(TypeError, match="torch module"):
        node(data(), module)


def test_what_is_no_module_and_what_numpy_cannot_hold_is_refused() -> None:
    for wrong in (3, torch.nn.Linear):
        with pytest.raises(TypeError, match=r"interop\.torch\.function takes"):
            rg.interop.torch.function(wrong)
    with pytest.raises(TypeError, match=r"parameter 'weight' is of torch.bfloat16.*module\.float"):
        rg.interop.torch.function(torch.nn.Linear(2, 2).bfloat16())
    with pytest.raises(TypeError, match="lazy"):
        rg.interop.torch.function(torch.nn.LazyLinear(2))
    with pytest.raises(TypeError, match=r"bfloat16.*return tensor\.float"):
        rg.interop.torch.function(lambda x: x.bfloat16())(data())
    for x in (data(), data().requires_grad_()):
        with pytest.raises(TypeError, match=r"to_dense"):
            rg.interop.torch.function(lambda x: x.to_sparse())(x)
    with pytest.raises(TypeError, match="returned a object"):
        rg.interop.torch.function(lambda x: object())(data())


def test_code_that_cannot_travel_is_refused_when_the_node_is_made() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        rg.interop.torch.function(lambda x: (lock, x)[1])


@pytest.mark.parametrize("options", [None, {}, {"strict": True}], ids=["eager", "session", "strict"])
def test_a_result_that_is_changed_in_place_has_the_gradient_that_torch_gives_it(options: dict[str, Any] | None) -> None:
    values = [0.5, 1.0, 2.0]
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    y = x.sin().clone()
    y.mul_(3.0)
    y[0] = 1.0
    y.sum().backward()
    mine = rg.tensor(values, dtype=rg.float64, requires_grad=True)
    with nullcontext() if options is None else rg.Session(workers=1, **options):
        made = rg.interop.torch.function(lambda one: one.sin())(mine)
        made.mul_(3.0)
        made[0] = 1.0
        made.sum().backward()
        gradient: Any = mine.grad
        assert made.tolist() == y.tolist()
        assert gradient.tolist() == x.grad.tolist()
