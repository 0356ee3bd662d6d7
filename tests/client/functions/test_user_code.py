"""User code as a session knows it: one fingerprint per submission, and what is captured, as it is now."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import raygrad as rg
from raygrad.workers.code.effects import ADDS


class Twice(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


def test_code_has_one_fingerprint_until_the_next_submission() -> None:
    with rg.Session(workers=1, strict=True) as session:
        recorder = session._recorder
        first = recorder.code.ship(Twice)
        assert recorder.code.ship(Twice) is first
        recorder.code.forget()
        again = recorder.code.ship(Twice)
        assert again is not first
        assert again.fingerprint == first.fingerprint


def test_a_class_keeps_its_fingerprint_in_process_while_its_guard_holds() -> None:
    class Scaled(Twice):
        factor = 2.0

    with rg.Session(workers=1) as session:
        code = session._recorder.code
        code.ship(Scaled)
        code.forget()
        first = code.ship(Scaled)  # the second time it is known from its definition
        code.forget()
        assert code.ship(Scaled) is first
        code.forget()
        Scaled.factor = 3.0
        changed = code.ship(Scaled)
        assert changed.fingerprint != first.fingerprint
        code.forget()
        Scaled.factor = 2.0
        assert code.ship(Scaled).fingerprint == first.fingerprint
        code.forget()
        Scaled.devices = ("cpu",)
        assert code.ship(Scaled).fingerprint != first.fingerprint


def test_code_that_captures_arrays_is_not_kept_beyond_a_submission() -> None:
    scale = rg.tensor([3.0])

    class Captures(Twice):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * scale

    with rg.Session(workers=1) as session:
        code = session._recorder.code
        for _ in range(3):
            code.ship(Captures)
            code.forget()
        assert Captures not in code._lasting


def test_what_code_captures_is_read_as_it_is_when_it_is_recorded() -> None:
    scale = rg.tensor([3.0])

    def scaled(grad: Any) -> Any:
        return grad * scale

    with rg.Session(workers=1, strict=True) as session:
        recorder = session._recorder
        (captured,) = recorder.code.captured(recorder.code.ship(scaled))
        value: Any = recorder.read(captured)
        assert value.tolist() == [3.0]


def test_an_array_that_stays_the_same_is_sent_once() -> None:
    scale = np.full((40, 40), 3.0)
    fixed = np.full((40, 40), 5.0)
    fixed.flags.writeable = False

    def hook(grad: Any) -> Any:
        return grad * rg.tensor(scale[0, 0] + fixed[0, 0])

    with rg.Session(workers=1, strict=True) as session:
        code = session._recorder.code

        def sent() -> list[Any]:
            records: list[Any] = [pending.record for pending in code.captured(code.ship(hook))]
            return [record.constant.value for record in records]

        first = sent()
        assert any(one is fixed for one in first)
        assert not any(one is scale for one in first)
        again = sent()
        code.forget()
        later = sent()
        assert [id(one) for one in first] == [id(one) for one in again] == [id(one) for one in later]
        scale[1, 1] = 7.0
        assert [id(one) for one in sent() if one is not fixed] != [id(one) for one in first if one is not fixed]
        del first, again, later
        code.forget()
        code.forget()
        gc.collect()
        assert len(session._recorder.inputs.snapshots) == 0


def test_a_compiled_function_sends_an_array_that_stays_the_same_once() -> None:
    scale = np.full((40, 40), 3.0)

    class Scales(Twice):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * float(scale[0, 0])

    x = rg.tensor([2.0], requires_grad=True)
    with rg.Session(workers=1, strict=True) as session:
        step = session.compile(lambda x: sum([Scales.apply(x) for _ in range(3)], rg.zeros(1)))
        sent: list[Any] = []
        driver: Any = session._driver
        submit = driver.submit

        def submitted(submission: Any, *rest: Any, **more: Any) -> Any:
            sent.append([e.value for e in submission.externals if getattr(e.value, "shape", ()) == (40, 40)])
            return submit(submission, *rest, **more)

        driver.submit = submitted
        assert [step(x).item() for _ in range(4)] == [18.0] * 4
        assert all(len(one) == 1 for one in sent[-3:])
        assert sent[-1][0] is sent[-2][0]
        scale[0, 0] = 4.0
        assert step(x).item() == 24.0
        assert sent[-1][0] is not sent[-2][0]


def test_code_that_may_add_to_gradients_is_known_by_its_fingerprint() -> None:
    def adds(grad: Any) -> None:
        (grad * 2.0).backward()

    with rg.Session(workers=1, strict=True) as session:
        recorder = session._recorder
        shipped = recorder.code.ship(adds)
        assert recorder.code.effects(adds, shipped) & ADDS
        assert session._observed.leaf_effects[shipped.fingerprint] & ADDS


def test_a_class_that_cannot_be_hashed_is_shipped() -> None:
    class Comparing(type(rg.autograd.Function)):  # Python gives what defines `__eq__` alone no hash
        def __eq__(cls, other: object) -> bool:
            return cls is other

    class Doubles(rg.autograd.Function, metaclass=Comparing):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with rg.Session(workers=1) as session:
        assert session._recorder.code.ship(Doubles).shipment.name == "Doubles"
