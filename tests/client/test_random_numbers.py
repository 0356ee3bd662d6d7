"""Random numbers of user code in sessions: the same as eagerly, whatever else differs (DR-15)."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.proto.ir.program import Pinned
from raygrad.workers.process.host import WorkerHost

from .random_programs import SEEDS, Inner, bits, checkpointed, compiled, phases, plainly, training

EAGER: dict[Any, list[bytes]] = {}


def eager(program: Any, *args: Any, **named: Any) -> list[bytes]:
    key = (program, args, tuple(named.items()))
    if key not in EAGER:
        EAGER[key] = bits(program, *args, **named)
    return EAGER[key]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("named", [{}, {"create_graph": True}, {"unneeded": True}], ids=["plain", "graph", "unneeded"])
def test_user_code_draws_what_it_draws_eagerly(session: Any, seed: int, named: dict[str, Any]) -> None:
    with session:
        assert bits(training, seed, **named) == eager(training, seed, **named)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_program_draws_the_same_for_every_seed(workers: int, strict: bool) -> None:
    with rg.Session(workers=workers, strict=strict) as session:
        for seed in SEEDS:
            for program in (training, checkpointed, phases):
                assert bits(program, seed) == eager(program, seed)
            assert bits(training, seed, create_graph=True) == eager(training, seed, create_graph=True)
            assert bits(compiled, seed, session.compile) == eager(compiled, seed)


@pytest.mark.parametrize("program", [checkpointed, phases, compiled])
def test_code_of_every_kind_draws_what_it_draws_eagerly(session: Any, program: Any) -> None:
    with session:
        assert bits(program, 1) == eager(program, 1)


def test_neither_regions_nor_a_graph_of_the_pass_nor_who_needs_it_move_numbers() -> None:
    assert eager(checkpointed, 1) == eager(checkpointed, 1, plainly)
    plain, retained = eager(training, 1), eager(training, 1, retain_graph=True)
    assert plain == retained
    graph = iter(eager(training, 1, create_graph=True))
    first_of = [next(graph) for _ in range(3)]
    assert first_of == plain[:3]
    needed = eager(training, 1, unneeded=True)
    assert [one for number, one in enumerate(needed) if number % 5 != 1] == plain


def test_each_application_pass_and_seed_has_numbers_of_its_own() -> None:
    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        x = rg.ones(3, requires_grad=True)
        first, second = Inner.apply(x), Inner.apply(x)
        grads = [rg.autograd.grad(first.sum(), x, retain_graph=True)[0] for _ in range(2)]
        return [first, second, *grads, rg.rand(3)]

    made = [*bits(program, 1), *bits(program, 2)]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("options", [{"saved": "recompute"}, {"workers": 3}, {"memory": "200 kB"}], ids=str)
def test_what_is_run_again_or_elsewhere_draws_the_same(options: dict[str, Any]) -> None:
    with rg.Session(**options):
        assert bits(training, 1) == eager(training, 1)


@pytest.mark.parametrize("reseeds", [False, True])
def test_replays_of_a_compiled_function_move_on_as_calls_do(session: Any, reseeds: bool) -> None:
    replays = []

    def compile_step(step: Any) -> Any:
        replays.append(session.compile(step))
        return replays[0]

    with session:
        assert bits(compiled, 1, compile_step, reseeds=reseeds) == eager(compiled, 1, reseeds=reseeds)
    assert replays[0].replayed >= 1


class PureNoise(rg.autograd.Function):
    """Draws in forward, and may run again."""

    pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        noise = rg.randn(*x.shape, dtype=x.dtype)
        ctx.noise = noise.numpy()
        return x * noise

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.from_numpy(ctx.noise)


def test_values_that_are_made_again_where_memory_is_short_are_the_same() -> None:
    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        x = rg.ones(5_000, dtype=rg.float64, requires_grad=True)
        made = x
        for _ in range(12):
            made = PureNoise.apply(made) + 1.0
        (made * made).sum().backward()
        return [made, x.grad]

    with rg.Session(memory="600 kB"):
        assert bits(program, 1) == eager(program, 1)


def test_a_seed_in_user_code_holds_for_that_call_alone(session: Any) -> None:
    class Reseeds(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.manual_seed(5)
            return x + rg.rand(3)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        x = rg.zeros(3)
        return [Reseeds.apply(x), rg.rand(3), Inner.apply(rg.ones(3)), Reseeds.apply(x)]

    with session:
        inside = bits(program, 1)
    assert inside == bits(program, 1)
    assert inside[0] == inside[3]
    rg.manual_seed(1)
    assert inside[1] == rg.rand(3).numpy().tobytes()


def test_a_generator_of_numpy_is_on_the_stream_of_the_code_that_asks_for_it() -> None:
    rg.manual_seed(4)
    drawn = rg.generator().random(3, dtype=np.float32)
    rg.manual_seed(4)
    assert rg.rand(3).numpy().tobytes() == drawn.tobytes()
    assert rg.generator() is rg.generator()


def test_a_compiled_function_that_asks_for_the_programs_generator_is_recorded_at_each_call() -> None:
    def program(compile_step: Any) -> list[float]:
        rg.manual_seed(4)
        step = compile_step(lambda x: x * float(rg.generator().random()))
        return [step(rg.ones(1)).item() for _ in range(3)]

    with rg.Session() as session:
        inside = program(session.compile)
    assert inside == program(lambda step: step)


@pytest.mark.parametrize("place", ["forward", "hook"])
def test_generators_of_numpy_in_user_code_are_warned_of_once_with_the_remedy(session: Any, place: str) -> None:
    generator = np.random.default_rng(0)

    class Draws(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * float(generator.random()) if place == "forward" else x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    def hook(grad: Any) -> Any:
        return grad * float(np.random.rand())

    def program() -> None:
        for _ in range(3):
            x = rg.ones(3, requires_grad=True)
            y = Draws.apply(x)
            if place == "hook":
                y.register_hook(hook)
            y.sum().backward()
            assert x.grad is not None
            x.grad.tolist()

    with session, pytest.warns(UserWarning, match=r"draws from .*rg\.generator\(\)") as warned:
        program()
    told = [str(one.message) for one in warned]
    assert len(told) == len(set(told))


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_examples_of_a_generated_vmap_rule_draw_what_they_draw_eagerly(session: Any, randomness: str) -> None:
    class Drawn(rg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * rg.rand(3) + rg.from_numpy(rg.generator().random(3, dtype=np.float32))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rg.rand(3)

    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        x = rg.ones((2, 3), requires_grad=True)
        made = [rg.vmap(Drawn.apply, randomness=randomness)(x) for _ in range(2)]
        (made[0] * made[1]).sum().backward()
        return [*made, x.grad, Drawn.apply(x[0])]

    with session:
        inside = bits(program, 1)
        with pytest.raises(RuntimeError, match="randomness error mode"):
            rg.vmap(Drawn.apply)(rg.ones((2, 3))).tolist()
    assert inside == bits(program, 1)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        rg.vmap(Drawn.apply)(rg.ones((2, 3)))


def test_a_call_that_is_attempted_a_second_time_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = WorkerHost.run

    def run_twice(host: WorkerHost, call: Any, objects: Any, unpacking: float = 0.0) -> Any:
        calls.append(call.segment)
        if not any(type(one) is Pinned for one in call.externals):  # which the first attempt may release
            run(host, call._replace(unpin=()), objects, unpacking)
        return run(host, call, objects, unpacking)

    monkeypatch.setattr(WorkerHost, "run", run_twice)
    with rg.Session():
        assert bits(training, 1) == eager(training, 1)
    assert calls


class Pushes(rg.autograd.Function):
    """Draws in setup_context and in jvp."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * rg.rand(3)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(rg.rand(3))

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * rg.rand(3) * ctx.saved_tensors[0]


def test_levels_of_forward_mode_draw_what_they_draw_eagerly(session: Any) -> None:
    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        ones = rg.ones(3)

        def once(x: Any) -> Any:
            return Pushes.apply(x) * x

        def twice(x: Any) -> Any:
            return rg.func.jvp(once, (x,), (ones,))[1]

        def aside(x: Any) -> Any:  # the level in the middle has no tangent of the argument
            return rg.func.jvp(lambda _: twice(x), (ones,), (ones,))[0]

        return [*rg.func.jvp(twice, (ones,), (ones,)), *rg.func.jvp(aside, (ones,), (ones,))]

    with session:
        inside = bits(program, 1)
    assert inside == bits(program, 1)


def test_what_only_sessions_run_at_the_client_moves_nothing(session: Any) -> None:
    class Says(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * rg.rand(3)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rg.rand(3)

        @staticmethod
        def infer(x: Any) -> Any:
            Inner.apply(rg.ones(3))
            rg.manual_seed(5)
            return rg.rand(*x.shape).shape, x.dtype

        @staticmethod
        def cost(x: Any) -> float:
            return 1e-3 + 0.0 * float(rg.generator().random())

    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        x = rg.ones(3, requires_grad=True)
        y = Says.apply(Says.apply(x)) + rg.rand(3)
        y.sum().backward()
        return [y, x.grad, rg.rand(2)]

    with session:
        inside = bits(program, 1)
    assert inside == bits(program, 1)


GIVEN: dict[str, Any] = {
    "generator": lambda: np.random.default_rng(0),
    "method": lambda: np.random.default_rng(0).random,
    "container": lambda: {"generator": [np.random.default_rng(0)]},
    "function": lambda: lambda: np.random.rand(),
    "namespace": lambda: SimpleNamespace(generator=np.random.default_rng(0)),
    "partial": lambda: partial(np.random.default_rng(0).normal, 1.0),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_generator_that_is_given_as_an_argument_is_warned_of(session: Any, name: str) -> None:
    class Given(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, held: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    with session:
        with pytest.warns(UserWarning, match=r"draws from .*, in argument 1: .*rg\.generator\(\)"):
            Given.apply(rg.ones(3), GIVEN[name]()).tolist()
        Given.apply(rg.ones(3), GIVEN[name]()).tolist()  # a second warning would be an error


def test_draws_in_threads_of_user_code_are_warned_of(session: Any) -> None:
    class Threaded(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, given: bool) -> Any:
            generator = rg.generator()
            draw: Any = generator.random if given else partial(rg.rand, 1)
            with ThreadPoolExecutor(1) as pool:
                return x * float(pool.submit(draw).result())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    with session:
        Threaded.apply(rg.ones(3), True).tolist()
        with pytest.warns(UserWarning, match=r"a thread draws random numbers .*rg\.generator\(\)"):
            Threaded.apply(rg.ones(3), False).tolist()


def test_a_generator_of_the_system_is_what_it_is_when_code_runs() -> None:
    system = random.SystemRandom()

    class Chooses(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * system.choice([2.0])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with rg.Session():
        assert [Chooses.apply(rg.ones(1)).item() for _ in range(2)] == [2.0, 2.0]
