"""Call arguments: what one call of a user Function is given, the sources of that, and the key of the call (H3, H9).

The first step of recording a call; the Function recorder does the others.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.derived.function_with_saved_hooks import with_hooks
from raygrad.autograd.functions.function import Function
from raygrad.autograd.storage.storage import has_views
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.workers.code.common_objects import SOLE, sharing
from raygrad.workers.code.nested_tensors import GroupedArgument
from raygrad.workers.code.visitor import PLAIN

from ..recording.records import OBJECTS, Constant, embedded, place_embedded, snapshot
from .aliased_arguments import AliasedArguments, find_aliased
from .call_costs import BY_NAME, CallCost
from .leaf_gradients import reachable_leaves
from .numeric_arguments import CONTAINERS, PLAIN_NUMBERS, NumericRun, exact_numbers, is_number, plain_data
from .observed_signature import FunctionSignature, declared_signature
from .saved_policy import RECOMPUTE, STORE, policy_of

if TYPE_CHECKING:
    from .functions import FunctionRecorder


class CallArguments:
    """What one call is given, as a graph has it, and the key under which it is known."""

    __slots__ = (
        "args",
        "call_cost",
        "captured",
        "changing",
        "cls",
        "embedded",
        "flags",
        "fn",
        "general",
        "grouped",
        "inputs",
        "key",
        "leaves",
        "named",
        "numbered",
        "numbers",
        "objects",
        "others",
        "places",
        "presumed",
        "reachable",
        "read",
        "recorder",
        "recording",
        "region",
        "related",
        "settings",
        "shared",
        "shipped",
        "sources",
        "together",
        "where",
        "written",
    )

    def __init__(
        self, recorder: FunctionRecorder, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        here = state.here
        recording = here.grad and True in [isinstance(arg, Tensor) and arg._requires_grad for arg in args]
        self.recorder, self.args, self.named, self.recording = recorder, args, named, recording
        self.written = cls
        """The Function as the user wrote it; `cls` is that with saved-tensor hooks around it, if there are any."""
        self.region = here.saving[-1].region if recording and here.saving else None
        if recording and here.saving and self.region is None:
            cls = with_hooks(cls)
        self.cls = cls
        if recorder.log.shared.changed:
            recorder.log.shared.settle_for((*args, *named.values()))
        self.shipped = shipped = recorder.code.ship(cls)
        self.fn = "@" + shipped.fingerprint
        self.settings = recorder.code.settings.now(here)
        self.embedded: list[Constant] = []
        """Arguments that are objects with tensors in them."""
        self.objects: list[Any] = []
        """What they stand for."""
        self.captured: Sequence[Pending | None] = ()
        """Captured inputs, which the code reads in addition to its arguments."""
        self.leaves: dict[int, Tensor] = NONE
        """Leaves among the tensors in objects, by number."""
        self.reachable: Any = None
        """The leaves that its code may add gradient to."""
        self.changing: Sequence[FunctionType] = ()
        """Functions in objects that change variables of their own."""
        self.call_cost: CallCost | None = None
        """What is known of its time."""
        self.others: list[Any] = []
        """What identifies the non-tensor arguments, with the values of numbers; see `CallCost`."""
        self.shared: AliasedArguments | None = None
        """How arguments share memory, if that matters."""
        self.numbered = False
        """Whether an argument is another output than the first of its node (OU-29)."""
        self.key: list[Any] = [shipped.fingerprint, recording, self.settings]
        """What applications that are alike have in common, collected."""
        self.numbers: Sequence[Any] = ()
        """The arguments that are numbers."""
        self.places: Sequence[int | str] = ()
        """Where these are: positions, and names of keyword-only ones."""
        self.together: dict[int | str, int] = NONE
        """The places of arguments that hold an object in common, and their numbers among these."""
        self.grouped: tuple[Any, ...] = ()
        """These arguments."""
        self.presumed: NumericRun | None = None
        """The run with other numbers whose signature is presumed."""
        self._read_arguments()
        if self.embedded or shipped.captured:
            self._read_captured()
        self.general: tuple[Any, ...] = tuple(self.key)
        """What applications have in common that are alike but for the values of numbers."""
        self.where = (*self.general, exact_numbers(self.numbers)) if self.numbers else self.general
        """The key: what applications that are alike have in common."""

    def _read_arguments(self) -> None:
        """Find where the arguments come from, and what of them belongs to the key."""
        recorder, key = self.recorder, self.key
        sources: list[Any] = []
        if len([arg for arg in self.args if type(arg) not in SOLE]) + len(self.named) > 1:
            self._find_shared_objects()
        inputs: list[Pending | None] = []
        flags: list[int] = []
        for arg in self.args:
            if isinstance(arg, Tensor):
                pending = recorder.inputs.leaf(arg)
                flag = 1 + arg.output_nr if arg._requires_grad else 0
                if flag > 1:
                    self.numbered = True
                key.append(pending.spec)
                sources.append(recorder.inputs.source(pending))
                for position, earlier in enumerate(inputs):  # given twice: what an output is differs, too (DR-01)
                    if earlier is not None and earlier.record is pending.record and earlier.index == pending.index:
                        key.append(("again", position))
                        break
                inputs.append(pending)
            else:
                flag = -1
                key.append(self._identity(arg, len(flags), sources))
                inputs.append(None)
            flags.append(flag)
            key.append(flag if flag < 1 else 1)
        for name, value in self.named.items():  # keyword-only ones are constants (FN-05)
            key.append((name, self._identity(value, name, sources)))
        self.sources, self.inputs, self.read, self.flags = sources, inputs, inputs, flags
        self.related = 0  # counts from two on
        if len(self.args) > 1:
            self.related = sum([isinstance(arg, Tensor) and has_views(arg) for arg in self.args])

    def _find_shared_objects(self) -> None:
        """Find which arguments travel as one, since they hold an object in common; one that is itself given twice needs
        nothing of that, since both read one constant."""
        places: list[int | str] = [*range(len(self.args)), *self.named]
        given = dict(zip(places, (*self.args, *self.named.values()), strict=True))
        first = {id(arg): place for place, arg in reversed(given.items())}
        places = sharing({place: arg for place, arg in given.items() if first[id(arg)] == place})
        if places:
            self.together = {place: number for number, place in enumerate(places)}
            self.grouped = tuple([given[place] for place in places])

    def _identity(self, arg: Any, place: int | str, sources: list[Any]) -> Any:
        """Return what of an argument that is no tensor belongs to the key: of a number its type, wherever it is."""
        if type(arg) in PLAIN_NUMBERS or is_number(arg):
            self.numbers, self.places = (*self.numbers, arg), (*self.places, place)
            sources.append(Constant(arg))
            kind = cast("type[Any]", type(arg))
            self._note_other(place, (kind, arg))
            return kind
        if (again := self._place_before(arg, len(sources))) >= 0:
            sources.append(sources[again])
            self._note_other(place, identity := ("again", again))
            return identity
        number = self.together.get(place)
        if number:
            sources.append(Constant(GroupedArgument(number)))
            self._note_other(place, identity := ("part", number))
            return identity
        if number is None and type(arg) in CONTAINERS and (found := plain_data(arg, place)) is not None:
            self.numbers, self.places = (*self.numbers, *found.numbers), (*self.places, *found.places)
            copied = copy.deepcopy(arg)
            sources.append(Constant(copied))
            self._note_other(place, (type(arg), copied))
            return found.identity
        if number is None:
            constant, identity = snapshot(arg, self.cls, place)
        else:
            constant, identity = embedded(arg := self.grouped, self.cls, place, of_several=True)
        if identity[0] in OBJECTS:
            code = self.recorder.code
            code.look_at_argument(self.written, self.fn, place, arg)
            if changing := code.changing_functions(arg):
                self.changing = (*self.changing, *changing)
                code.ordered.add(self.fn)
        if constant.inside or number is not None:
            self.embedded.append(constant)
            self.objects.append(arg)
        sources.append(constant)
        self._note_other(place, identity)
        return identity

    def _place_before(self, arg: Any, count: int) -> int:
        """Return where an argument that holds something is among the first `count` sources, -1 if it is not."""
        if type(arg) in PLAIN or count < 1:
            return -1
        given = (*self.args, *self.named.values())
        return next((n for n in range(count) if given[n] is arg), -1)

    def _note_other(self, place: int | str, identity: Any) -> None:
        self.others.append((BY_NAME, place, identity) if isinstance(place, str) else identity)

    def presumed_signature(self) -> FunctionSignature | None:
        """Return what is presumed of this call by runs with other numbers; None if it has to run first."""
        observed = self.recorder.observed
        self.presumed = None
        others = observed.numbers.get(self.general)
        run = None if others is None else others.presumed(self.numbers)
        if run is None or (self.declares and not self._declares(run.signature)):
            return None
        if run.signature.holds and self.policy() == RECOMPUTE:
            return None  # its context is not kept, so that its node could not go by another signature
        self.presumed = run
        return run.signature

    def policy(self) -> str:
        """Return the policy for what the call saves."""
        policy = policy_of(self.written, self.recorder.execution.saved_policy) if self.recording else STORE
        # what hooks pack is where they have it, and they run once
        return STORE if policy == RECOMPUTE and self.cls is not self.written else policy

    @property
    def declares(self) -> bool:
        """Whether the Function says by an `infer` what it returns."""
        return self.cls is self.written and hasattr(self.cls, "infer")

    def _declares(self, signature: FunctionSignature) -> bool:
        """Tell whether the outputs are those that the Function's `infer` says."""
        said = declared_signature(self.recorder.log.specs, self.cls, self.args)
        return said is not None and said.declares(signature)

    def _read_captured(self) -> None:
        """Find the captured inputs: what the code captured, and the tensors in objects."""
        recorder, shipped = self.recorder, self.shipped
        captured: Sequence[Pending | None] = recorder.code.captured(shipped) if shipped.captured else ()
        if self.embedded:
            others, said = place_embedded(self.embedded, self.args)
            held = [recorder.inputs.leaf(tensor) for tensor in others]
            self.key.append((said, *[pending.spec for pending in held]))
            captured = [*captured, *held]
            self.leaves = {number: t for number, t in enumerate(others) if t._requires_grad and t.grad_fn is None}
        reachable = None
        if captured and (effects := recorder.code.effects(self.cls, shipped, self.objects)):
            reachable = reachable_leaves(recorder.inputs, effects, shipped.captured, (), self.leaves, forward=True)
        if reachable is not None:
            self.key.append((*reachable.in_node, *[None if grad is None else grad.spec for grad in reachable.grads]))
            captured = [*captured, *reachable.grads]
        self.captured, self.reachable = captured, reachable
        self.sources += recorder.inputs.sources(captured)

    def reads_aliased(self) -> bool:
        """Tell whether arguments are of one memory, of which forward may change one; if so, have it read the owners,
        and let the key end with how they share it."""
        shared = find_aliased(self.args)
        if shared is None:
            return False
        inputs = self.recorder.inputs
        self.shared, self.read = shared, list(self.inputs)
        self.where, self.general = (*self.where, shared.where), (*self.general, shared.where)
        self.presumed = None
        for position, owner in shared.owners.items():
            value = self.read[position] = inputs.leaf(owner)
            self.sources[position] = inputs.source(value)
        return True


NONE: dict[Any, Any] = {}
"""Of what most applications have none of; never written to."""
