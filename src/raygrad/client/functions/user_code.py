"""User code registry: how the code that a session records is shipped, what it captures and requests, and its effects on
the `.grad` of leaves.

Recorders of hooks and Functions name code by its fingerprint here. What is shipped, and what capturing means, the
workers' `code` defines. A fingerprint holds until the next submission (H17).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.modes import Modes
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.nodes import Settings
from raygrad.tracebacks import attribute_of
from raygrad.workers.code.captured_state import CapturedState
from raygrad.workers.code.changing_code import definition_of
from raygrad.workers.code.effects import changes_variables, functions_in, gradient_effects
from raygrad.workers.code.foreign_generators import foreign_generator_in
from raygrad.workers.code.guard import Guard
from raygrad.workers.code.op_registry_sync import with_registrations
from raygrad.workers.code.pickling import content_of
from raygrad.workers.code.shipping import Shipped, ship, warn_once
from raygrad.workers.executors.base import CODE_CACHE_SIZE

from ..recording.record_inputs import InputRecorder
from ..recording.snapshot_cache import is_still, value_of_leaf
from .call_costs import CallCosts
from .observations import Observations
from .recorded_settings import SettingsRecorder
from .resource_requests import ResourceRequest, declares_request, requested_by

LASTING_KEPT: Final = 256
"""Classes whose fingerprints are kept: a bound on memory for programs that define new ones again and again."""


class UserCode:
    """The user code of one session."""

    def __init__(
        self,
        inputs: InputRecorder,
        observed: Observations,
        register: Callable[[Shipped], None],
        call_costs: CallCosts,
        *,
        several_workers: bool = False,
        remote: bool = False,
        named: Callable[[Any], Shipped | None] = lambda obj: None,
    ) -> None:
        """`register` makes shipped code known to the executor; with `several_workers` there is more than one; `remote`
        ones have processes of their own; `named` returns how code goes that goes by name, None of other code."""
        self.settings = SettingsRecorder(self.ship, remote=remote)
        """The settings under which code is recorded."""
        self.call_costs = call_costs
        self.requests: dict[str, ResourceRequest] = {}
        """By name in the graph, what user Functions request of workers."""
        self.ordered: set[str] = set()
        """By name in the graph, code that changes what it captures while several workers share this process: see
        `in_program_order`."""
        self._several_workers = several_workers
        self._inputs = inputs
        self._log = inputs.log
        self._leaf_effects = observed.leaf_effects
        self._register = register
        self._named = named
        self._shipped: dict[Any, Shipped] = {}
        self._used_again: set[str] = set()
        """Fingerprints of code of earlier passes that this submission uses."""
        self._captured: list[Pending] = []
        """Captured arrays as they were sent, of this submission and of the one before, so that an array which stays the
        same is sent once (`InputRecorder.snapshots`)."""
        self._captured_before: list[Pending] = []
        self._examined: set[Any] = set()
        """Fingerprints of code, and kinds of arguments, that were searched for generators of NumPy and Python."""
        self._drawing: set[tuple[str, str]] = set()
        """Names of such code, and what it draws from: it was warned of."""
        self._registered = 0
        """How often code was registered."""
        self.waits = False
        """Whether code is recorded that changes what it captures, or may do so, and has not run: `settle` runs it."""
        self.settle: Callable[[], None] = lambda: None
        """Submits what is recorded, and waits for it; set by the session."""
        self._changing: set[Any] = set()
        """What such code may change; see `Guard.places`."""
        self._tried: weakref.WeakSet[Any] = weakref.WeakSet()
        """Definitions of hooks and backwards that have run in this session."""
        self._changes_variables: weakref.WeakKeyDictionary[CodeType, bool] = weakref.WeakKeyDictionary()
        """Per function that was an argument, whether it changes variables of its own."""
        self._of_pass: dict[Any, Shipped] | None = None
        """While a pass is recorded, the code that it has looked at; None if user code may run meanwhile."""
        self._settings_of_pass: Settings | None = None
        """The settings under which it is recorded, once asked for."""
        self._lasting: dict[type[Any], tuple[Shipped, int]] = {}
        """Classes of earlier submissions whose fingerprints hold as long as their guards do: in this process, where no
        registrations belong to them, and without captured arrays, which must not be kept alive."""

    def ship(self, obj: Any) -> Shipped:
        """Return user code with its fingerprint, taken anew when something that it reads has changed, and with what it
        captures (H16, H17)."""
        hashable = type(obj).__hash__ is not None
        found = self._shipped.get(obj) if hashable else None
        known = found is not None and found.guard.holds()
        if found is None or not known:
            found = self._still_shipped(obj) or self._shipped_now(obj)
        if self._changing and not found.shipment.shares_state and self._changing & found.guard.places():
            self.settle()  # it reads what code changes that is recorded
            return self.ship(obj)
        shared = self._log.shared
        if found.captured and shared.changed and shared.settle_for(found.captured):
            return self.ship(obj)
        if hashable and not known:
            self._shipped[obj] = found
        if self._log.trace is not None:
            self._log.trace.code[found.fingerprint] = found
        return found

    def begin_pass(self) -> None:
        """Take note that a pass is recorded, in which no user code runs: what code reads stays as it is."""
        self._of_pass, self._settings_of_pass = {}, None

    def end_pass(self) -> None:
        """Take note that user code may run again."""
        self._of_pass = self._settings_of_pass = None

    def ship_in_pass(self, obj: Any) -> Shipped:
        """Return the code of a backward as `ship` does: one pass looks at it once."""
        known = self._of_pass
        if known is None or type(obj).__hash__ is None:
            return self.ship(obj)
        found = known.get(obj)
        if found is None:
            found = self.ship(obj)
            if found.shipment.watched is None and not found.shipment.shares_state:
                known[obj] = found
        return found

    def settings_in_pass(self, here: Modes) -> Settings:
        """Return the settings of a backward as `settings.now` does: one pass looks at them once."""
        found = self._settings_of_pass
        if found is None:
            found = self.settings.now(here)
            if self._of_pass is not None:
                self._settings_of_pass = found
        return found

    def use(self, shipped: Shipped) -> None:
        """Take note that code is used again that was shipped for an earlier pass."""
        if shipped.fingerprint not in self._used_again:
            self._used_again.add(shipped.fingerprint)
            self._register(shipped)
            self._registered += 1
        if self._log.trace is not None:
            self._log.trace.code[shipped.fingerprint] = shipped

    def will_run(self, shipped: Shipped, *, forward: bool = False) -> bool:
        """Take note that a node with this code is recorded; tell whether it is to run at once, in this process, as
        eagerly: the code changes what it captures, or it captures what may change and has not been seen to run yet. A
        forward has, unless its class says by `infer` what it returns, and asks not to be waited for."""
        shipment = shipped.shipment
        if not shipment.shares_state and (forward or shipment.watched is None):
            return False
        if self._log.trace is not None:
            return False
        if not shipment.shares_state:
            definition = definition_of(shipment.live)
            if definition in self._tried:
                return False
            self._tried.add(definition)
        if shipment.watched is not None:
            self._changing |= shipment.watched.places()
        self.waits = True
        return True

    def changing_functions(self, value: Any) -> list[FunctionType]:
        """Return the functions in an argument that change variables of their own, and have those of the program: in
        this process."""
        if not self._inputs.by_reference or self._log.trace is not None:
            return []
        found: list[FunctionType] = []
        for function in functions_in(value):
            changes = self._changes_variables.get(function.__code__)
            if changes is None:
                changes = self._changes_variables[function.__code__] = changes_variables(function)
            if changes:
                found.append(function)
        return found

    def will_call(self, functions: Iterable[FunctionType]) -> None:
        """Take note that a node is recorded which calls such functions, so that it is to run at once."""
        for function in functions:
            self._changing |= CapturedState([function], content=content_of, guard=Guard()).guard.places()
        self.waits = True

    def settled(self) -> None:
        """Take note that what was recorded has run."""
        self.waits = False
        self._changing.clear()
        self.end_pass()

    def _still_shipped(self, obj: Any) -> Shipped | None:
        """Return a class as it was shipped for an earlier submission, if the executor has it and its guard holds."""
        found, registered = self._lasting.get(obj, (None, 0)) if _is_hashable_class(obj) else (None, 0)
        if found is None or self._registered - registered >= CODE_CACHE_SIZE or declares_request(obj):
            return None
        return found if found.guard.holds() else None

    def _shipped_now(self, obj: Any) -> Shipped:
        """Return user code with its fingerprint, taken now; register it, and note what it requests."""
        by_reference = self._inputs.by_reference
        by_name = self._named(obj)
        found = by_name or ship(obj, in_process=by_reference)
        if found.fingerprint not in self._examined:
            self._examined.add(found.fingerprint)
            self._warn_of_generators(obj)
        if not by_reference and by_name is None:
            found = with_registrations(found)
        if isinstance(obj, type):
            needs = requested_by(obj)
            if needs:
                self.requests["@" + found.fingerprint] = ResourceRequest(obj.__name__, needs)
            elif found.lasts and by_reference and not found.captured and _is_hashable_class(obj):
                self._lasting[obj] = found, self._registered
                if len(self._lasting) > LASTING_KEPT:
                    del self._lasting[next(iter(self._lasting))]
        if found.shipment.shares_state and self._several_workers:
            self.ordered.add("@" + found.fingerprint)
        self._register(found)
        self._registered += 1
        return found

    def look_at_argument(self, function: type[Any], fn: str, place: int | str, value: Any) -> None:
        """Look for generators of random numbers in an object that a Function, `fn` in the graph, is given: once in each
        function, and once in objects of one type."""
        kind = cast("type[Any]", type(value))
        code: Any = attribute_of(value, "__code__")
        # names, since programs define classes again and again
        seen: Any = (fn, place, code or (kind.__module__, kind.__qualname__, attribute_of(value, "__name__")))
        if seen not in self._examined:
            self._examined.add(seen)
            self._warn_of_generators(value, function, place)

    def _warn_of_generators(self, obj: Any, function: Any = None, place: int | str = "") -> None:
        """Warn once of code that draws random numbers from a generator of NumPy or Python (DR-15); of a Function's
        argument if `function` is given."""
        drawn = foreign_generator_in(obj)
        if drawn is None:
            return
        named = obj if function is None else function
        name = str(attribute_of(named, "__qualname__") or type(named).__qualname__)
        where = "" if function is None else f", in argument {place!r}"
        if (name, drawn + where) in self._drawing:
            return
        self._drawing.add((name, drawn + where))
        warn_once(
            (name, drawn),  # of this session: other sessions warn of it, too
            f"'{name}' draws from {drawn}{where}: where it runs in a session, and when, decides which numbers these "
            "are, and workers may repeat each other's; draw with raygrad (rg.rand, rg.randn), or from rg.generator(), "
            "a generator of NumPy that SciPy takes, too (random_state=rg.generator()): both follow from "
            "rg.manual_seed, eagerly and on any worker",
        )

    def forget(self) -> None:
        """Take fingerprints again from here on: a submission has been made."""
        self._shipped.clear()
        if self._of_pass is not None:
            self._of_pass = {}
        self._used_again.clear()
        self._captured_before, self._captured = self._captured, []

    def effects(self, obj: Any, shipped: Shipped, objects: Sequence[Any] = ()) -> int:
        """Return the effects that user code, with objects that it is given, may have on the `.grad` of leaves (H16);
        see `gradient_effects`."""
        found = self._leaf_effects.get(shipped.fingerprint)
        if found is None:
            found = self._leaf_effects[shipped.fingerprint] = gradient_effects(obj)
        for one in objects:
            found |= gradient_effects(one)
        return found

    def captured(self, shipped: Shipped) -> list[Pending]:
        """Return the values that user code captures, as they are now."""
        values: list[Pending] = []
        for one in shipped.captured:
            if isinstance(one, Tensor):
                values.append(self._inputs.leaf(one))
                continue
            values.append(self._inputs.captured_array(np.asarray(one)))
            self._captured.append(values[-1])
        return values

    def captured_now(self, shipped: Shipped, before: Sequence[Pending]) -> Sequence[Pending]:
        """Return the values that user code captures, as they are now: those of `before` where they are unchanged."""
        for one, earlier in zip(shipped.captured, before, strict=True):
            if isinstance(one, Tensor):
                if self._inputs.leaf(one) is not earlier:
                    return self.captured(shipped)
            elif not is_still(value_of_leaf(earlier), np.asarray(one)):
                return self.captured(shipped)
        return before


def _is_hashable_class(obj: Any) -> bool:
    """Tell whether user code is a class that a dict can have as a key: a metaclass may compare without hashing."""
    return isinstance(obj, type) and type(obj).__hash__ is not None
