"""LG-14: regions of autocast, and the decorators for Functions in them: programs that show it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..programs.registry import constant, leaf, program, raises, warns


def whole(T: Any, *shape: int, seed: int = 0, dtype: str = "float32", requires_grad: bool = True) -> Any:
    """Whole numbers, whose sums and products float16 holds exactly."""
    return T.tensor(np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype), requires_grad=requires_grad)


def name_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def region(T: Any, **options: Any) -> Any:
    return T.autocast("cpu", dtype=T.float16, **options)


def asking(T: Any, log: Any) -> Any:
    """x**2 by a matrix product, whose methods tell what they see."""

    class Asking(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = x @ x
            log("forward", [T.is_autocast_enabled("cpu"), name_of(y)])
            return y

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("backward", [T.is_autocast_enabled("cpu"), name_of(g), name_of(x @ x)])
            return (g.to(x.dtype) * 2 * x).to(x.dtype)

    return Asking


@program("LG-14")
def a_region_casts_what_multiplies_matrices(T: Any, log: Any) -> Any:
    """An operand is not cast, the result has another dtype, or a gradient comes back in the lower one."""
    x, w, b = whole(T, 4, 4), whole(T, 4, 4, seed=1), whole(T, 4, seed=2)
    images, kernel = whole(T, 1, 2, 4, 4, seed=3), whole(T, 2, 2, 2, 2, seed=4)
    with region(T):
        results = [
            x @ w,
            T.mm(x, w),
            T.addmm(b, x, w),
            T.nn.functional.linear(x, w, b),
            T.bmm(x.unsqueeze(0), w.unsqueeze(0)),
            T.einsum("ij,kj->ik", x, w),
            T.nn.functional.conv2d(images, kernel),
            T.matmul(x[0], w[0]),
        ]
        kept = [T.mv(x, b), T.dot(b, b), x * w, x.sum(), T.exp(x * 0), T.einsum("ij,ij->ij", x, w)]
    total: Any = sum(r.to(T.float32).sum() for r in results) + sum(k.sum() for k in kept)
    total.backward()
    return [results, kept, [t.grad for t in (x, w, b, images, kernel)]]


@program("LG-14", rtol32=1e-3)
def a_region_raises_what_needs_the_range(T: Any, log: Any) -> Any:
    """A loss or a product of many factors has the lower precision, or a gradient comes back in the higher."""
    h = T.tensor(np.linspace(0.25, 2.0, 12, dtype="float16").reshape(3, 4), requires_grad=True)
    target = T.tensor(np.array([0, 2, 1]))
    with region(T):
        losses = [
            T.nn.functional.mse_loss(h, h.detach() * 2),
            T.nn.functional.cross_entropy(h, target),
            T.nn.functional.l1_loss(h, h.detach() * 2, reduction="none"),
            T.prod(h, 1),
            T.trace(h[:, :3]),
            T.linalg.inv(h[:2, :2]),
        ]
        kept = [T.softmax(h, 1), h.sum(), h * 2]
    total: Any = sum(loss.sum() for loss in losses)
    total.backward()
    return [losses, kept, h.grad]


@program("LG-14")
def a_region_joins_in_the_widest_dtype(T: Any, log: Any) -> Any:
    """Tensors that are joined are not raised to the widest, or those of whole numbers or of float64 are cast."""
    x, h, d = whole(T, 2, 2), whole(T, 2, 2, seed=1, dtype="float16"), whole(T, 2, 2, seed=2, dtype="float64")
    with region(T):
        joined = [
            T.cat([x, h]),
            T.stack([h, x]),
            T.cat([h, h]),
            T.cat([h, d, x]),
            T.index_copy(x, 0, T.tensor([1]), h[:1]),
        ]
        wide = [d @ d, T.matmul(T.tensor([[2]]), T.tensor([[3]]))]
    total: Any = sum(j.to(T.float64).sum() for j in [*joined, wide[0]])
    total.backward()
    return [joined, wide, x.grad, h.grad, d.grad]


@program("LG-14")
def regions_nest_and_end(T: Any, log: Any) -> Any:
    """A region inside another does not end it for its block, or what was before does not come back."""
    x = whole(T, 2, 2)
    seen = [T.is_autocast_enabled("cpu")]

    @region(T)
    def decorated() -> Any:
        seen.append(T.is_autocast_enabled("cpu"))
        return x @ x

    with region(T):
        inner = [x @ x]
        with region(T, enabled=False):
            seen.append(T.is_autocast_enabled("cpu"))
            inner.append(x @ x)
        with raises(ZeroDivisionError), region(T, enabled=False):
            raise ZeroDivisionError
        seen += [T.is_autocast_enabled("cpu"), T.get_autocast_dtype("cpu") == T.float16, T.is_autocast_enabled()]
        inner.append(x @ x)
    seen.append(T.is_autocast_enabled("cpu"))
    return [inner, decorated(), x @ x, seen, T.is_autocast_enabled("cpu")]


@program("LG-14")
def a_leaf_is_cast_once(T: Any, log: Any) -> Any:
    """Uses of a weight do not share a cast, or share it although the cache is off."""
    found = []
    for cached in (True, False):
        w = T.tensor(np.eye(2, dtype="float32"), requires_grad=True)
        large, small = T.full((2, 2), 2048.0), T.full((2, 2), 0.5)
        with region(T, cache_enabled=cached):
            y = (large @ w).sum() / 2 + (small @ w).sum()
        y.backward()
        found += [y, w.grad]
    return found


@program("LG-14")
def a_region_lasts_as_long_as_its_casts(T: Any, log: Any) -> Any:
    """A cast that was made without recording is used where gradients are recorded, or outlives the region."""
    w = whole(T, 2, 2)
    with region(T):
        with T.no_grad():
            before = w @ w
        y = w @ w
    y.sum().backward()
    with T.no_grad():
        w.mul_(2)
    with region(T):
        after = w @ w
    return [before, y, w.grad, after, after.requires_grad]


@program("LG-14", torch=False)
def a_leaf_that_was_changed_is_cast_anew(T: Any, log: Any) -> Any:
    """A region goes on with the cast of a weight that has been changed in place since."""
    w = whole(T, 2, 2)
    with region(T):
        before = w @ w
        with T.no_grad():
            w.mul_(2)
        after = w @ w
    return [before, after, bool((after == before * 4).all())]


@program("LG-14", "DR-10")
def functions_see_the_region_they_are_applied_in(T: Any, log: Any) -> Any:
    """A forward does not see the region of its application, a backward that of its pass, or either one of another."""
    Asking = asking(T, log)
    x = whole(T, 2, 2)
    with region(T):
        y = Asking.apply(x)
    y.to(T.float32).sum().backward()
    z = Asking.apply(x)
    with region(T):
        z.sum().backward()
    Asking.apply(x).sum().backward()
    return [y, z, x.grad]


@program("LG-14", "DR-10")
def hooks_see_the_region_of_the_pass(T: Any, log: Any) -> Any:
    """A hook does not see the region in which the pass runs, or sees that in which it was registered."""
    x = whole(T, 2, 2)
    y = x * 2
    with region(T):
        y.register_hook(lambda g: log("hook", T.is_autocast_enabled("cpu")))
        y.grad_fn.register_hook(lambda gi, go: log("node", T.is_autocast_enabled("cpu")))
    y.sum().backward(retain_graph=True)
    with region(T):
        y.sum().backward()
    return x.grad


@program("LG-14")
def decorated_functions_cast_their_inputs(T: Any, log: Any) -> Any:
    """Inputs are not cast, also in containers, casting stays on, or something is cast outside of all regions."""
    amp = importlib.import_module(T.__name__ + ".amp")

    class Cast(T.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=T.float32)
        def forward(ctx, x, others, scale):
            inside = [x, others[0], others[1]["h"], others[1]["d"], others[1]["n"]]
            log("inputs", [[name_of(t) for t in inside], others[1]["text"], scale])
            ctx.save_for_backward(x)
            y = x @ x
            log("forward", [T.is_autocast_enabled("cpu"), name_of(y)])
            return y

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("backward", [T.is_autocast_enabled("cpu"), name_of(x), name_of(x @ x)])
            return g * 2 * x, None, None

    half = constant(T, 2, 2).to(T.float16)
    others = [half, {"h": half, "d": constant(T, 2), "n": T.tensor([1]), "text": "as it is"}]
    x = whole(T, 2, 2, dtype="float16")
    with region(T):
        y = Cast.apply(x, others, 2.0)
        z = Cast.apply(x, others, 2.0)
    y.sum().backward()
    with region(T):
        z.sum().backward()
    Cast.apply(x, others, 2.0).to(T.float32).sum().backward()
    return [y, z, x.grad]


@program("LG-14")
def a_decorated_backward_casts_as_forward_did(T: Any, log: Any) -> Any:
    """Backward runs in the region of its pass, or with what the region of its forward had not."""
    amp = importlib.import_module(T.__name__ + ".amp")
    Asking = asking(T, log)

    class AsForward(Asking):
        forward = staticmethod(amp.custom_fwd(Asking.forward, device_type="cpu"))
        backward = staticmethod(amp.custom_bwd(Asking.backward, device_type="cpu"))

    x = whole(T, 2, 2)
    with region(T):
        y = AsForward.apply(x)
    y.to(T.float32).sum().backward()
    z = AsForward.apply(x)
    with region(T):
        z.sum().backward()
    return [y, z, x.grad, AsForward.forward.__name__]


@program("LG-14", torch=False)
def the_separate_style_is_decorated_alike(T: Any, log: Any) -> Any:
    """What a forward without a context ran in does not reach its backward, or its inputs are not cast."""
    amp = importlib.import_module(T.__name__ + ".amp")

    def made(cast_inputs: Any) -> Any:
        class Separate(T.autograd.Function):
            @staticmethod
            @amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
            def forward(x, scale=2.0):
                y = x @ x * scale
                log("forward", [name_of(x), T.is_autocast_enabled("cpu"), name_of(y)])
                return y

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])

            @staticmethod
            @amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                log("backward", [T.is_autocast_enabled("cpu"), name_of(x @ x)])
                return (g.to(T.float32) * x).to(x.dtype), None

        return Separate

    x, h = whole(T, 2, 2), whole(T, 2, 2, dtype="float16")
    with region(T):
        y, z = made(None).apply(x), made(T.float32).apply(h)
    y.sum().backward()
    with region(T):
        z.sum().backward()
    w = made(None).apply(x)
    with region(T):
        w.sum().backward()
    return [y, z, w, x.grad, h.grad]


@program("LG-14", tags=["create_graph"])
def casts_are_differentiated_twice(T: Any, log: Any) -> Any:
    """The derivative of a derivative loses the cast, or has another dtype than its input."""
    x, w = whole(T, 3, 3), whole(T, 3, 3, seed=1)
    with region(T):
        y = (x @ w).to(T.float32)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    g.sum().backward()
    return [g, x.grad, w.grad]


@program("LG-14", "DR-10", tags=["create_graph"])
def decorated_functions_are_differentiated_twice(T: Any, log: Any) -> Any:
    """The second derivative of a Function does not run as its forward did."""
    amp = importlib.import_module(T.__name__ + ".amp")

    class Squared(T.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.mm(x)

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g.mm(x.t()) + x.t().mm(g)).to(x.dtype)

    x = whole(T, 3, 3)
    with region(T):
        y = Squared.apply(x)
    (g,) = T.autograd.grad(y.to(T.float32).sum(), x, create_graph=True)
    (g * g).sum().backward()
    return [y, g, x.grad]


@program("LG-14")
def transforms_are_cast_inside_regions(T: Any, log: Any) -> Any:
    """A region does not reach what vmap, grad or jvp run, or changes the dtype of what they give."""
    x, w = whole(T, 3, 2, 2, requires_grad=False), whole(T, 2, 2, seed=1, requires_grad=False)
    with region(T):
        many = T.func.vmap(lambda one: one @ w)(x)
        slope = T.func.grad(lambda one: (one @ w).to(T.float32).sum())(x[0])
        value, moved = T.func.jvp(lambda one: one @ w, (x[0],), (x[1],))
    return [many, slope, value, moved]


@program("LG-14", tags=["trains"], rtol32=2e-3)
def a_model_trains_in_mixed_precision(T: Any, log: Any) -> Any:
    """A cast weight does not learn, or a region that spans a step goes on with the old one."""
    x, target = constant(T, 8, 3, dtype="float32"), constant(T, 8, 2, seed=5, dtype="float32")
    w, b = leaf(T, 2, 3, dtype="float32"), leaf(T, 2, seed=1, dtype="float32")
    optimiser = T.optim.SGD([w, b], lr=0.1)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        with region(T):
            loss = T.nn.functional.mse_loss(T.nn.functional.linear(x, w, b), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return [losses, w, b]


@program("LG-14")
def regions_refuse_what_they_cannot_cast_to(T: Any, log: Any) -> Any:
    """A dtype that cannot be cast to switches casting on, or an unknown device is accepted."""
    x = whole(T, 2, 2)
    with warns(UserWarning, "target dtype", "Disabling autocast"):
        wide = T.autocast("cpu", dtype=T.float64)
    with wide:
        y = x @ x
    with raises(RuntimeError, "foo"):
        T.autocast("foo")
    with raises(ValueError, "device_type", "int"):
        T.autocast(1)
    with raises(TypeError, "requires a callable"):
        T.autocast("cpu", dtype=T.float16)(1)
    with warns(UserWarning, "CUDA", "Disabling autocast"):
        T.autocast("cuda")
    return y
