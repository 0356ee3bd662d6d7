"""Shipping of user code between the client and its workers: by reference, by import name, or as a pickle (DR-13).

The recorder ships code when it records a node; a worker opens it when it compiles the node. Captured arrays and tensors
are not part of the pickle: they become inputs of the node, and are put back where the code is opened (H16). So code
that is defined anew at each step has the same fingerprint, whatever it captures (H9)."""

from __future__ import annotations

import importlib
import io
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, cast

import numpy as np

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable
from raygrad.tracebacks import attribute_of, users_level

from .bytecode import passes_on, writes_items
from .captured_state import CapturedState
from .changing_code import changes_state
from .code_cache_key import CodeCacheKey
from .effects import gradient_effects, name_changed_by, optimizer_call_in
from .exceptions import (
    message_of as message_of,
    pack_exception as pack_exception,
    traceback_of as traceback_of,
    unpack_exception as unpack_exception,
)
from .fingerprint import by_import_name, by_reference, digest
from .guard import Guard
from .importable import import_name, imports_alike
from .pickling import MUTABLE, CodePickler, class_table, content_of, pickle_value as pickle_value, unpicklable_message
from .unpickling import (
    ClassName,
    load_code,
    opening_as_worker as opening_as_worker,
    opens_as_worker,
    unpickle_value as unpickle_value,
)

OPENED_KEPT: Final = 1024
"""Opened code that is cached per process: a bound for programs that make new definitions without end."""

BOUND_KEPT: Final = 16
"""Opened code with captured values that is cached per process; each entry keeps its arrays alive."""

BOUND_BYTES: Final = 1 << 20
"""Code with more captured bytes than this is opened each time: that costs little beside receiving them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """User code on its way to a worker: the object itself (`live`), an import name, or a `payload`.

    A live object has a payload, too, if it could be pickled, which is used if its guard fails: the object has changed
    since it was shipped.
    """

    fingerprint: str
    name: str
    """The name of the code in messages."""
    live: Any = field(default=None, compare=False, repr=False)
    """The object itself: within one process only."""
    guard: Guard | None = field(default=None, compare=False, repr=False)
    """Of code that was shipped within one process: the guard of what a live object captures, None if that may change;
    without one, that of the classes which its copies share with the program."""
    module: str = ""
    qualname: str = ""
    payload: bytes = field(default=b"", repr=False)
    classes: tuple[ClassName, ...] = ()
    """Per class that the payload has by value: its name, and whether it captures nothing."""
    shares_state: bool = field(default=False, compare=False)
    """Whether a live object changes what it captures, which the client and other code may read: it runs at once."""
    watched: Guard | None = field(default=None, compare=False, repr=False)
    """Of a live object that captures what may change: the guard that tells after a run whether the code changed it."""
    imports: str = field(default="", compare=False)
    """Code in a module of the user's that the payload has by name, so that a copy in this process would read what
    stands there when it runs."""
    registrations: bytes = field(default=b"", repr=False)
    """The users' registrations for built-in ops when it was sent; see `op_registry_sync`."""

    def portable(self) -> tuple[Any, ...]:
        """Return it as plain data for the codec; `Shipment.of` is the inverse. A live object cannot be.

        Raises:
            NotShippable: it holds the object itself.
        """
        if self.live is not None:
            raise NotShippable(f"{self.name} is used by reference and cannot leave this process")
        own = (self.fingerprint, self.name, self.module, self.qualname, self.payload, self.classes)
        return (*own, self.registrations)

    @classmethod
    def of(cls, data: Sequence[Any]) -> Shipment:
        """Return the shipment that `portable` was called on."""
        fingerprint, name, module, qualname, payload, classes, registrations = data
        return cls(
            fingerprint=fingerprint,
            name=name,
            module=module,
            qualname=qualname,
            payload=bytes(payload),
            classes=tuple((str(key), bool(pure)) for key, pure in classes),
            registrations=bytes(registrations),
        )


class Shipped(NamedTuple):
    """Shipped code: its name in a graph (after "@"), the shipment, and captured arrays and tensors, in order."""

    fingerprint: str
    shipment: Shipment
    captured: tuple[Tensor | np.ndarray[Any, Any], ...]
    guard: Guard
    """Holds while the same code would be shipped alike."""
    lasts: bool = False
    """Whether that is so however much later: the guard covers all that decides it."""


# ---- out -------------------------------------------------------------------------------------------------------------


def ship(obj: Any, *, in_process: bool = False) -> Shipped:
    """Return how a user's function, class or callable object travels, with the arrays and tensors that it captures.

    The fingerprint stays the same while the definition does, whatever it captures. With `in_process` the code is used
    as it is if it captures nothing that has to become an input of its node, also when it could not be pickled; yet what
    it reads (variables, attributes) is always what it was when it was shipped, unless it changes such things itself.

    Warns (UserWarning, once per object): it captures a list, dict or set, of which a worker changes its own copy only,
    or which `in_process` it shares with the client, so that its calls keep program order.

    Raises:
        NotShippable: it captures something that cannot leave this process; names the variable.
    """
    looks = CodeCacheKey(obj, content_of)
    known = _shipped.get((in_process, looks.key)) if looks.sure and not (in_process and changes_state(obj)) else None
    if known is None:
        shipped = _ship(obj, in_process, looks)
        places = {id(one): place for place, one in enumerate(looks.captured)}
        alike = (
            looks.sure and len(places) == len(shipped.captured) and all(id(one) in places for one in shipped.captured)
        )
        # what goes by reference only shares state with the client: equal code is not the same
        only_by_reference = shipped.shipment.live is not None and not shipped.shipment.payload
        if alike and not (in_process and only_by_reference):
            order = tuple([places[id(one)] for one in shipped.captured])
            _shipped[in_process, looks.key] = (shipped.shipment, order, looks.held)
            if len(_shipped) > OPENED_KEPT:
                _shipped.popitem(last=False)
        return shipped if looks.sure or only_by_reference else shipped._replace(lasts=True)
    shipment, order, _ = known
    return Shipped(shipment.fingerprint, shipment, tuple([looks.captured[place] for place in order]), looks.guard, True)


_shipped: OrderedDict[tuple[bool, Any], tuple[Shipment, tuple[int, ...], Any]] = OrderedDict()
"""Cache by code fingerprint: shipment, order of captures, and the objects that the key names by identity."""


def _ship(obj: Any, in_process: bool, looks: CodeCacheKey) -> Shipped:
    """Ship code that is not in the cache."""
    guard = looks.guard
    name = str(attribute_of(obj, "__name__") or type(obj).__name__)
    home = import_name(obj)
    if home is not None:
        fingerprint = by_import_name(home)
        return Shipped(fingerprint, _by_name(fingerprint, name, home, obj if in_process else None), (), guard)
    changed = name_changed_by(obj, _is_installed)
    buffer = io.BytesIO()
    pickler = CodePickler(buffer)
    error: Exception | None = None
    try:
        pickler.dump(obj)
    except Exception as refusal:
        if not in_process:
            raise NotShippable(unpicklable_message(obj, name, refusal)) from refusal
        error = refusal
    if pickler.imports and not in_process:
        warn_once(
            obj,
            f"'{name}' may use '{pickler.imports}', which cannot be pickled: a worker imports it, with what stands in "
            "that module there; pass what the program changes in it as an argument",
        )
    shares = in_process and (error is not None or _may_run_here(obj, pickler))
    if guard.unseen:
        pickler.iterators.clear()  # it is warned of below
    changes = _warn_of_changes(obj, name, pickler, changed, shared=shares) or changes_state(obj)
    if guard.stale_cache:
        changes = True
        if not shares:
            warn_once(
                obj,
                f"'{name}' calls '{guard.stale_cache}', whose cache has results of before something that it reads was "
                "changed: a worker computes them anew, from what stands there now; call cache_clear() after the change",
            )
    if guard.unseen:
        changes = True
        _warn_of_unseen(obj, name, guard.unseen, shares)
    if shares and (changes or error is not None):
        return _ship_by_reference(obj, name, guard, guarded=not changes)
    _guard_what_is_copied(guard, looks.inputs, pickler.captured)
    payload = buffer.getvalue()
    fingerprint = digest(payload)
    classes = class_table(fingerprint, pickler, obj)
    shipment = Shipment(fingerprint=fingerprint, name=name, payload=payload, classes=classes)
    if in_process and not pickler.captured:
        watched = guard if guard.has_state else None
        shipment = replace(shipment, live=obj, guard=guard, watched=watched, imports=pickler.imports)
    elif in_process and pickler.imports:
        shipment = replace(shipment, guard=guard, imports=pickler.imports)
    elif in_process and (others := [one for one in pickler.classes if isinstance(one, type) and one is not obj]):
        # its copies use the program's own, as long as they stay as they are
        shipment = replace(shipment, guard=CapturedState(others, content=content_of, guard=Guard()).guard)
    return Shipped(fingerprint, shipment, tuple(pickler.captured), guard)


def _may_run_here(obj: Any, pickler: CodePickler) -> bool:
    """Tell whether code may run in this process as it is, with all that it captures: not where it captures a tensor
    whose value is pending, or a leaf to which it might add gradient."""
    tensors = [one for one in pickler.captured if isinstance(one, Tensor)]
    return not tensors or (not any([type(one._data) is Pending for one in tensors]) and not gradient_effects(obj))


def _guard_what_is_copied(guard: Guard, reached: Sequence[Any], captured: Sequence[Any]) -> None:
    """Guard the arrays and tensors that code reaches and that are no inputs of its node: an object that says itself how
    it is pickled may have handed out copies, or what it made of them."""
    inputs = set(map(id, captured))
    for one in reached:
        if id(one) not in inputs:
            CapturedState([one], guard=guard, by_reference=True)


def _is_installed(obj: Any) -> bool:
    """Tell whether an object is installed on every worker, and not the user's."""
    return imports_alike(obj.__name__) if isinstance(obj, ModuleType) else import_name(obj) is not None


def _by_name(fingerprint: str, name: str, home: tuple[str, str], live: Any) -> Shipment:
    if live is not None:
        return Shipment(fingerprint=fingerprint, name=name, live=live)
    return Shipment(fingerprint=fingerprint, name=name, module=home[0], qualname=home[1])


def _ship_by_reference(obj: Any, name: str, guard: Guard, *, guarded: bool) -> Shipped:
    """Ship an object by reference under a fingerprint of its own: it shares its state with the client, or cannot be
    pickled. A `guarded` object gets another one when its captured state has changed."""
    if guarded:
        CapturedState([obj], content=content_of, guard=guard, by_reference=True)
    fingerprint = by_reference(obj, guard if guarded else None)
    held = guard if guarded else None
    watched = guard if guard.has_state else None
    shipment = Shipment(
        fingerprint=fingerprint, name=name, live=obj, guard=held, shares_state=not guarded, watched=watched
    )
    return Shipped(fingerprint, shipment, (), guard if guarded else Guard())


# ---- the warning of DR-06 -------------------------------------------------------------------------------------------

_warned: weakref.WeakSet[Any] = weakref.WeakSet()
_warned_of_sharing: weakref.WeakSet[Any] = weakref.WeakSet()
"""Apart, so that code which was used in process is warned of once more where its changes are lost."""


def _warn_of_changes(obj: Any, name: str, pickler: CodePickler, changed: str | None, *, shared: bool) -> bool:
    """Warn once of what the code changes, or of a captured container that it might fill, for the client; tell whether
    there is such a thing. `shared` says that the code is used by reference, and so changes the client's own objects.

    A class is warned of only where its code writes to a container: its tables of constants are no mistake.
    """
    is_class = isinstance(obj, type)
    found = [
        name
        for function, name in pickler.mutable
        if writes_items(function.__code__) or (not is_class and passes_on(function.__code__, name))
    ]
    if not shared:  # here a run shows whether it goes on with one
        found += pickler.iterators
    subject = obj.__self__ if isinstance(obj, MethodType) else obj
    if isinstance(obj, BuiltinFunctionType):
        found += [kind.__name__ for kind in MUTABLE if isinstance(obj.__self__, kind)]
    elif not isinstance(subject, FunctionType | type | ModuleType | partial):
        state = attribute_of(subject, "__dict__", {})
        found.extend(
            f"{type(subject).__name__}.{key}"
            for key, value in state.items()
            if isinstance(value, MUTABLE) and not key.startswith("__") and _has_writer(cast(Any, type(subject)))
        )
    stepped = optimizer_call_in(obj) if changed is None and not found else None
    if stepped is not None:
        warn_once(
            subject,
            f"'{name}' calls {stepped}(...), and the optimiser is the client's: what it changes on the worker that "
            "runs it is lost; call it from a hook after accumulation (register_post_accumulate_grad_hook), which runs "
            "here, or register the hook with client=True",
        )
        return True
    if changed is None and not found:
        return False
    if shared:
        what = f"captures '{found[0]}', a mutable object" if found else f"changes '{changed}', an object"
        warn_once(
            subject,
            f"'{name}' {what} of your program: its calls, forward and backward, run at once, one after the other in "
            "program order; to run them side by side, return values or send them with rg.emit(name, value), to a "
            "handler given to session.on(name, handler), or register it with client=True if it is a hook",
            _warned_of_sharing,
        )
        return True
    what = f"captures '{found[0]}', a mutable object" if found else f"changes '{changed}', which is"
    warn_once(
        subject,
        f"'{name}' {what} of the client: what it changes there stays on the worker that runs it; send values back with "
        "rg.emit(name, value), to a handler given to session.on(name, handler), or register it with client=True if it "
        "is a hook",
    )
    return True


def _warn_of_unseen(obj: Any, name: str, unseen: str, shared: bool) -> None:
    """Warn once of code that reads what no guard can compare."""
    what = f"'{name}' reads by way of '{unseen}', which tells nobody when what stands there is changed"
    if shared:
        what += ": its calls, forward and backward, run at once, one after the other in program order"
        warn_once(obj, f"{what}; to run them side by side, pass what they read as arguments", _warned_of_sharing)
    else:
        warn_once(obj, f"{what}: a worker reads what it finds; pass it as an argument, or name it in the code")


def _has_writer(cls: type[Any]) -> bool:
    """Tell whether a method of a class might change a container."""
    members = [member for base in cls.__mro__ for member in vars(base).values()]
    return any([isinstance(one, FunctionType) and writes_items(one.__code__) for one in members])


def warn_once(subject: Any, message: str, warned: weakref.WeakSet[Any] = _warned) -> None:
    """Warn of a piece of user code, at the user's line, unless it is among those that were `warned` of before."""
    try:
        if subject in warned:
            return
        warned.add(subject)
    except TypeError:  # takes no weak references, or is not hashable: warned each time
        pass
    warnings.warn(message, UserWarning, stacklevel=users_level())


# ---- in --------------------------------------------------------------------------------------------------------------

_opened: OrderedDict[tuple[str, bool], Any] = OrderedDict()
_bound: OrderedDict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = OrderedDict()


def open_shipment(shipment: Shipment, captured: Sequence[Any] = ()) -> Any:
    """Return the code, with `captured` (one array per captured array or tensor, or that tensor itself; None if
    undefined) put back.

    Opened once per process if it captures nothing, else once per set of captured objects, while it is remembered.

    Raises:
        NotShippable: the worker lacks a module that the code imports; or live code reads something else than when it
            was shipped, and could not be copied then.
    """
    if shipment.live is not None:
        if shipment.guard is None or shipment.guard.holds():
            return shipment.live
        _check_copied(shipment)
        with opening_as_worker():  # a copy that reads what the object read when it was shipped
            return open_shipment(replace(shipment, live=None, guard=None))
    if shipment.guard is not None and not shipment.guard.holds():
        _check_copied(shipment)
        with opening_as_worker():
            return open_shipment(replace(shipment, guard=None), captured)
    if not captured:
        key = (shipment.fingerprint, opens_as_worker())
        found = _opened.get(key)
        if found is None:
            found = _opened.setdefault(key, _open(shipment, ()))
            if len(_opened) > OPENED_KEPT:
                _opened.popitem(last=False)
        return found
    values = tuple(captured)
    if any([isinstance(value, Tensor) for value in values]):
        return _open(shipment, values)  # of one run's tape
    if sum(getattr(value, "nbytes", 0) for value in values) > BOUND_BYTES:
        return _open(shipment, values)
    bound_key = (shipment.fingerprint, opens_as_worker(), *map(id, values))
    held = _bound.get(bound_key)
    if held is None:
        held = _bound[bound_key] = (_open(shipment, values), values)  # the values too: their ids stay theirs
        if len(_bound) > BOUND_KEPT:
            _bound.popitem(last=False)
    return held[0]


def _check_copied(shipment: Shipment) -> None:
    """Check that a copy reads what the code read when it was shipped."""
    if shipment.payload and not shipment.imports:
        return
    what = f"it may use '{shipment.imports}', which" if shipment.imports else "it captures what"
    raise NotShippable(
        f"something that '{shipment.name}' reads (a variable, an attribute of its class) was changed after it was "
        f"applied and before it ran, and {what} cannot be copied; pass what changes as an argument"
    )


def _open(shipment: Shipment, captured: Sequence[Any]) -> Any:
    try:
        if shipment.payload:
            return load_code(shipment.payload, shipment.classes, captured)
        found: Any = importlib.import_module(shipment.module)
        for part in shipment.qualname.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError) as error:
        raise NotShippable(
            f"'{shipment.name}' cannot be opened on this worker ({type(error).__name__}: {error}); install what it "
            "imports there too, or name it in the session's runtime_env"
        ) from error
