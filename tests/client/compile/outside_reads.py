"""A table of what the Python code of a compiled function may read beside its arguments.

A row is a function that makes a fresh `Read`: how the code reads a number, and how the program changes it."""

from __future__ import annotations

import argparse
import array
import builtins
import collections
import contextvars
import datetime
import functools
import importlib
import itertools
import operator
import os
import random
import sys
import threading
import time
import types
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import raygrad as rg

MODULE = "raygrad_test_settings"
"""The name of a module of the user's, which no worker could import."""

GLOBAL = 1.0


class Read(NamedTuple):
    read: Callable[[], Any]
    """Called by the compiled function."""
    change: Callable[[float], Any]
    """Called by the program, so that `read` gives this number."""


def user_module() -> Any:
    """Return a fresh module of the user's, with K and a module `inner` with another K."""
    module: Any = types.ModuleType(MODULE)
    inner: Any = types.ModuleType(MODULE + ".inner")
    module.K = inner.K = 1.0
    module.inner = inner
    sys.modules[MODULE], sys.modules[MODULE + ".inner"] = module, inner
    return module


def _setter(owner: Any, name: str) -> Callable[[float], Any]:
    return lambda value: setattr(owner, name, value)


# ---- modules and names ----------------------------------------------------------------------------------------------


def import_inside() -> Read:
    module = user_module()

    def read() -> Any:
        import raygrad_test_settings as settings  # pyright: ignore[reportMissingImports]

        return settings.K

    return Read(read, _setter(module, "K"))


def import_from_inside() -> Read:
    module = user_module()

    def read() -> Any:
        from raygrad_test_settings import K  # pyright: ignore[reportMissingImports]

        return K

    return Read(read, _setter(module, "K"))


def import_submodule_inside() -> Read:
    module = user_module()

    def read() -> Any:
        import raygrad_test_settings.inner  # pyright: ignore[reportMissingImports]

        return raygrad_test_settings.inner.K

    return Read(read, _setter(module.inner, "K"))


def replaced_module() -> Read:
    user_module()

    def read() -> Any:
        import raygrad_test_settings  # pyright: ignore[reportMissingImports]

        return raygrad_test_settings.K

    return Read(read, lambda value: setattr(user_module(), "K", value))


def function_of_a_module_in_an_attribute() -> Read:
    """Its other functions, which read what cannot be compared, are named nowhere."""
    module = user_module()
    space: Any = vars(module)
    space["os"] = os
    exec("def rate(): return scaled()\ndef scaled(): return K\ndef who(): return os.getpid()", space)
    holder = types.SimpleNamespace(module=module)
    return Read(lambda: holder.module.rate(), _setter(module, "K"))


def module_in_a_module() -> Read:
    module = user_module()
    return Read(lambda: module.inner.K, _setter(module.inner, "K"))


def getattr_of_a_module() -> Read:
    module = user_module()
    return Read(lambda: getattr(module, "".join("K")), _setter(module, "K"))


def vars_of_a_module() -> Read:
    module = user_module()
    return Read(lambda: vars(module)["K"], _setter(module, "K"))


def attrgetter_of_a_module() -> Read:
    module, get = user_module(), operator.attrgetter("K")
    return Read(lambda: get(module), _setter(module, "K"))


def missing_name_of_a_module() -> Read:
    module = user_module()

    def read() -> Any:
        try:
            return module.LATER
        except AttributeError:
            return 1.0

    return Read(read, _setter(module, "LATER"))


def function_of_a_module() -> Read:
    module = user_module()
    exec("def read(): return K", vars(module))
    return Read(lambda: module.read(), _setter(module, "K"))


def getattr_of_a_module_that_has_one() -> Read:
    module = user_module()
    held = {"rate": 1.0}
    module.__getattr__ = held.__getitem__
    return Read(lambda: module.rate, lambda value: held.update(rate=value))


def module_given_to_a_function() -> Read:
    module = user_module()

    def helper(settings: Any) -> Any:
        return settings.K

    return Read(lambda: helper(module), _setter(module, "K"))


def module_by_another_name() -> Read:
    module = user_module()

    def read() -> Any:
        settings = module
        return settings.K

    return Read(read, _setter(module, "K"))


def module_in_an_attribute() -> Read:
    module = user_module()
    held = SimpleNamespace(settings=module)
    return Read(lambda: held.settings.K, _setter(module, "K"))


def global_in_the_body_of_a_class() -> Read:
    module = user_module()
    exec("def read():\n class Held:\n  rate = K\n return Held.rate", vars(module))
    return Read(module.read, _setter(module, "K"))


def sys_modules() -> Read:
    module = user_module()
    return Read(lambda: sys.modules[MODULE].K, _setter(module, "K"))


def import_module() -> Read:
    module = user_module()
    return Read(lambda: importlib.import_module(MODULE).K, _setter(module, "K"))


def _set_global(value: float) -> None:
    global GLOBAL
    GLOBAL = value  # pyright: ignore[reportConstantRedefinition]


def globals_by_name() -> Read:
    return Read(lambda: globals()["GLOBAL"], _set_global)


def evaluated() -> Read:
    return Read(lambda: eval("GLOBAL"), _set_global)


def globals_of_a_function() -> Read:
    function = globals_by_name
    return Read(lambda: function.__globals__["GLOBAL"], _set_global)


def builtin_name() -> Read:
    def change(value: float) -> None:
        builtins.RAYGRAD_TEST_RATE = value  # type: ignore[attr-defined]

    change(1.0)
    return Read(lambda: RAYGRAD_TEST_RATE, change)  # type: ignore[name-defined]  # noqa: F821


def global_that_comes_later() -> Read:
    globals().pop("_LATER", None)

    def read() -> Any:
        try:
            return _LATER  # type: ignore[name-defined]
        except NameError:
            return 1.0

    return Read(read, lambda value: globals().update(_LATER=value))


def attribute_of_a_library() -> Read:
    previous: Any = np
    previous.raygrad_test_rate = 1.0
    return Read(lambda: np.raygrad_test_rate, _setter(np, "raygrad_test_rate"))  # type: ignore[attr-defined]


# ---- objects --------------------------------------------------------------------------------------------------------


def keywords_of_a_partial() -> Read:
    partial = functools.partial(lambda *, rate: rate, rate=1.0)
    return Read(lambda: partial(), lambda value: partial.keywords.update(rate=value))


def state_of_a_partial() -> Read:
    partial = functools.partial(lambda rate: rate, 1.0)
    return Read(lambda: partial(), lambda value: partial.__setstate__((partial.func, (value,), {}, {})))  # type: ignore[attr-defined]


def function_of_a_partial() -> Read:
    held = [1.0]
    partial = functools.partial(lambda: held[0])
    return Read(lambda: partial(), lambda value: held.__setitem__(0, value))


def attribute_of_a_partial() -> Read:
    partial: Any = functools.partial(int)
    partial.rate = 1.0
    return Read(lambda: partial.rate, _setter(partial, "rate"))


def bytearray_item() -> Read:
    data = bytearray(b"\x01\x02")
    return Read(lambda: float(data[0]), lambda value: data.__setitem__(0, int(value)))


def array_item() -> Read:
    data = array.array("d", [1.0, 2.0])
    return Read(lambda: data[0], lambda value: data.__setitem__(0, value))


def memory_view() -> Read:
    data = bytearray(b"\x01\x02")
    view = memoryview(data)
    return Read(lambda: float(view[0]), lambda value: data.__setitem__(0, int(value)))


def context_variable() -> Read:
    rate = contextvars.ContextVar("rate", default=1.0)
    return Read(lambda: rate.get(), rate.set)


def in_a_context_variable() -> Read:
    rate: Any = contextvars.ContextVar("rate")
    held = [1.0]
    rate.set(held)
    return Read(lambda: rate.get()[0], lambda value: held.__setitem__(0, value))


def thread_local() -> Read:
    local = threading.local()
    local.rate = 1.0
    return Read(lambda: local.rate, _setter(local, "rate"))


def mapping_proxy() -> Read:
    held = {"rate": 1.0}
    proxy = types.MappingProxyType(held)
    return Read(lambda: proxy["rate"], lambda value: held.update(rate=value))


def view_of_a_dict() -> Read:
    held = {"rate": 1.0}
    values = held.values()
    return Read(lambda: next(iter(values)), lambda value: held.update(rate=value))


def order_of_a_dict() -> Read:
    held = {"one": 1.0, "two": 2.0, "three": 3.0}

    def change(value: float) -> None:
        name = next(name for name, one in held.items() if one == value)
        held.update({name: held.pop(name), **{other: held.pop(other) for other in list(held) if other != name}})

    return Read(lambda: next(iter(held.values())), change)


def default_factory() -> Read:
    held: Any = collections.defaultdict(lambda: 1.0)

    def read() -> Any:
        return held.default_factory()

    return Read(read, lambda value: setattr(held, "default_factory", lambda: value))


def user_dict() -> Read:
    held = collections.UserDict(rate=1.0)
    return Read(lambda: held["rate"], lambda value: held.update(rate=value))


def chain_map() -> Read:
    front: dict[str, float] = {}
    held = collections.ChainMap(front, {"rate": 1.0})
    return Read(lambda: held["rate"], lambda value: front.update(rate=value))


def namespace_of_arguments() -> Read:
    args = argparse.Namespace(rate=1.0)
    return Read(lambda: args.rate, _setter(args, "rate"))


def simple_namespace() -> Read:
    held = SimpleNamespace(inner=SimpleNamespace(rate=1.0))
    return Read(lambda: held.inner.rate, _setter(held.inner, "rate"))


def bound_builtin() -> Read:
    held = {"rate": 1.0}
    get = held.get
    return Read(lambda: get("rate"), lambda value: held.update(rate=value))


def bound_operator() -> Read:
    held = {"rate": 1.0}
    get = held.__getitem__
    return Read(lambda: get("rate"), lambda value: held.update(rate=value))


def weak_reference() -> Read:
    class Held:
        rate = 1.0

    held = Held()
    reference = weakref.ref(held)

    def read() -> Any:
        found = reference()
        return found and found.rate

    return Read(read, _setter(held, "rate"))


def masked_array() -> Read:
    held: Any = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, False, False])

    def change(value: float) -> None:
        held.mask[: int(value) - 1] = True

    return Read(lambda: float(held.compressed()[0]), change)


def iterator_that_is_not_read() -> Read:
    class Trainer:
        def __init__(self) -> None:
            self.rate = 1.0
            self.batches = iter([1.0, 2.0])

    trainer = Trainer()
    return Read(lambda: trainer.rate, _setter(trainer, "rate"))


def attribute_of_a_subclass() -> Read:
    class Named(np.ndarray):
        rate = 1.0

    held = np.zeros(2).view(Named)
    return Read(lambda: held.rate, _setter(held, "rate"))


def class_with_its_own_lookup() -> Read:
    held = {"rate": 1.0}

    class Config:
        def __getattr__(self, name: str) -> float:
            return held[name]

    config = Config()
    return Read(lambda: config.rate, lambda value: held.update(rate=value))


def vectorised_function() -> Read:
    held = [1.0]
    function = np.vectorize(lambda x: x * held[0])
    return Read(lambda: float(function(1.0)), lambda value: held.__setitem__(0, value))


def cached_function() -> Read:
    held = [1.0]
    function = functools.lru_cache(lambda: held[0])

    def change(value: float) -> None:
        held[0] = value
        function.cache_clear()

    return Read(lambda: function(), change)


def cleared_cache() -> Read:
    """A cache goes on giving what it has: only clearing it changes what is read."""
    held = [1.0]
    function = functools.lru_cache(lambda: held[0])
    function()
    held[0] = 2.0
    return Read(lambda: function(), lambda value: (held.__setitem__(0, value), function.cache_clear()))


def single_dispatch() -> Read:
    function = functools.singledispatch(lambda x: 1.0)
    return Read(lambda: function(1), lambda value: function.register(int, lambda x: value))


def class_of_an_instance() -> Read:
    class One:
        def rate(self) -> float:
            return 1.0

    held = One()

    def change(value: float) -> None:
        held.__class__ = type("Other", (One,), {"rate": lambda self: value})

    return Read(lambda: held.rate(), change)


def attribute_of_a_metaclass() -> Read:
    class Meta(type):
        rate = 1.0

    class Plain(metaclass=Meta):
        pass

    return Read(lambda: Plain.rate, _setter(Meta, "rate"))


def base_of_a_class() -> Read:
    class One:
        rate = 1.0

    class Held(One):
        pass

    return Read(lambda: Held.rate, lambda value: setattr(Held, "__bases__", (type("Two", (One,), {"rate": value}),)))


def attribute_through_a_property() -> Read:
    class Held:
        def __init__(self) -> None:
            self._rate = 1.0

        @property
        def rate(self) -> float:
            return self._rate

    held = Held()
    return Read(lambda: held.rate, _setter(held, "_rate"))


def variable_that_is_bound_later() -> Read:
    def read() -> Any:
        try:
            return rate
        except NameError:
            return 1.0

    def change(value: float) -> None:
        nonlocal rate
        rate = value

    rate: float
    return Read(read, change)


def attribute_of_a_tensor() -> Read:
    held: Any = rg.zeros(1)
    held.rate = 1.0
    return Read(lambda: held.rate, _setter(held, "rate"))


def shape_of_a_tensor() -> Read:
    held = rg.zeros(1)
    return Read(lambda: float(held.shape[0]), lambda value: setattr(held, "data", rg.zeros(int(value))))


def dtype_of_a_tensor() -> Read:
    held, dtypes = rg.zeros(1), {rg.float32: 1.0, rg.float64: 2.0, rg.int64: 3.0}

    def change(value: float) -> None:
        held.data = rg.zeros(1, dtype=next(dtype for dtype, one in dtypes.items() if one == value))

    return Read(lambda: dtypes[held.dtype], change)


def flag_of_a_tensor() -> Read:
    held = SimpleNamespace(tensor=rg.zeros(1), rates={False: 1.0, True: 2.0})

    def change(value: float) -> None:
        held.tensor.requires_grad_()
        held.rates[True] = value

    return Read(lambda: held.rates[held.tensor.requires_grad], change)


def array_that_is_made_writable() -> Read:
    held = np.ones(1)
    held.flags.writeable = False

    def change(value: float) -> None:
        held.flags.writeable = True
        held[0] = value

    return Read(lambda: float(held[0]), change)


def weak_reference_to_a_parent() -> Read:
    class Node:
        def __init__(self, parent: Any) -> None:
            self.parent = parent and weakref.ref(parent)
            self.children: list[Any] = []
            self.rate = 1.0

    root = Node(None)
    root.children.append(Node(root))
    return Read(lambda: root.children[0].parent().rate, _setter(root, "rate"))


def default_that_changes() -> Read:
    def read(held: list[float] = [1.0]) -> float:  # noqa: B006
        return held[0]

    def change(value: float) -> None:
        defaults: Any = read.__defaults__
        defaults[0][0] = value

    return Read(read, change)


def environment() -> Read:
    os.environ["RAYGRAD_TEST_RATE"] = "1.0"
    return Read(
        lambda: float(os.environ["RAYGRAD_TEST_RATE"]), lambda value: os.environ.update(RAYGRAD_TEST_RATE=str(value))
    )


def getenv() -> Read:
    os.environ["RAYGRAD_TEST_RATE"] = "1.0"
    return Read(
        lambda: float(os.getenv("RAYGRAD_TEST_RATE", "0")),
        lambda value: os.environ.update(RAYGRAD_TEST_RATE=str(value)),
    )


def length() -> Read:
    held = [0]
    return Read(lambda: float(len(held)), lambda value: held.extend([0] * (int(value) - len(held))))


GUARDED: list[Callable[[], Read]] = [
    import_inside,
    import_from_inside,
    import_submodule_inside,
    replaced_module,
    function_of_a_module_in_an_attribute,
    module_in_a_module,
    getattr_of_a_module,
    vars_of_a_module,
    attrgetter_of_a_module,
    module_given_to_a_function,
    module_by_another_name,
    module_in_an_attribute,
    global_in_the_body_of_a_class,
    missing_name_of_a_module,
    function_of_a_module,
    getattr_of_a_module_that_has_one,
    builtin_name,
    global_that_comes_later,
    attribute_of_a_library,
    keywords_of_a_partial,
    state_of_a_partial,
    function_of_a_partial,
    attribute_of_a_partial,
    bytearray_item,
    array_item,
    memory_view,
    context_variable,
    in_a_context_variable,
    thread_local,
    mapping_proxy,
    view_of_a_dict,
    order_of_a_dict,
    default_factory,
    user_dict,
    chain_map,
    namespace_of_arguments,
    simple_namespace,
    bound_builtin,
    bound_operator,
    iterator_that_is_not_read,
    attribute_of_a_subclass,
    class_with_its_own_lookup,
    masked_array,
    vectorised_function,
    cached_function,
    cleared_cache,
    single_dispatch,
    class_of_an_instance,
    attribute_of_a_metaclass,
    base_of_a_class,
    attribute_through_a_property,
    variable_that_is_bound_later,
    attribute_of_a_tensor,
    shape_of_a_tensor,
    dtype_of_a_tensor,
    flag_of_a_tensor,
    array_that_is_made_writable,
    weak_reference_to_a_parent,
    default_that_changes,
    environment,
    getenv,
    length,
]
"""Reads that are compared at each call: the function is replayed while they give the same."""


# ---- what nobody can compare ----------------------------------------------------------------------------------------


def _counting(step: Callable[[], Any]) -> Read:
    """Return a read that another one follows at each call, whatever the program does."""
    return Read(step, lambda value: None)


def iterator() -> Read:
    numbers = iter([float(n) for n in range(1, 100)])
    return _counting(lambda: next(numbers))


def generator() -> Read:
    numbers = (float(n) for n in range(1, 100))
    return _counting(lambda: next(numbers))


def counter() -> Read:
    numbers = itertools.count(1)
    return _counting(lambda: float(next(numbers)))


def in_an_attribute() -> Read:
    held = SimpleNamespace(numbers=itertools.cycle([1.0, 2.0, 3.0]))
    return _counting(lambda: next(held.numbers))


def by_name_in_an_attribute() -> Read:
    held, name = SimpleNamespace(numbers=iter([float(n) for n in range(1, 100)])), "numbers"
    return _counting(lambda: next(getattr(held, name)))


def subclass_in_c() -> Read:
    class Numbers(itertools.count):
        pass

    numbers = Numbers(1)
    return _counting(lambda: float(next(numbers)))


def system_generator() -> Read:
    generator = random.SystemRandom()
    return _counting(lambda: float(generator.randrange(1_000_003)))


def clock() -> Read:
    return _counting(lambda: float(time.perf_counter_ns() % 1_000_003))


def clock_by_its_name() -> Read:
    from time import monotonic_ns as now

    return _counting(lambda: float(now() % 1_000_003))


def date() -> Read:
    return _counting(lambda: float(datetime.datetime.now().microsecond))


def random_bytes() -> Read:
    return _counting(lambda: float(os.urandom(1)[0]))


def fresh_name() -> Read:
    return _counting(lambda: float(uuid.uuid4().int % 1_000_003))


def fresh_generator() -> Read:
    return _counting(lambda: np.random.default_rng().random())


def opened_file() -> Read:
    def read() -> Any:
        with open(os.devnull) as file:
            return file.readline() or 1.0

    return _counting(read)


def read_file() -> Read:
    path = Path(os.devnull)
    return _counting(lambda: path.read_text() or 1.0)


def loaded_array() -> Read:
    return _counting(lambda: float(np.fromfile(os.devnull).size + 1))


def frame_of_the_caller() -> Read:
    return Read(lambda: sys._getframe(0).f_globals["GLOBAL"], _set_global)


ANEW: list[Callable[[], Read]] = [
    sys_modules,
    import_module,
    globals_by_name,
    evaluated,
    globals_of_a_function,
    weak_reference,
    iterator,
    generator,
    counter,
    in_an_attribute,
    by_name_in_an_attribute,
    subclass_in_c,
    system_generator,
    clock,
    clock_by_its_name,
    date,
    random_bytes,
    fresh_name,
    fresh_generator,
    opened_file,
    read_file,
    loaded_array,
    frame_of_the_caller,
]
"""Reads that cannot be compared: the function is recorded at each call."""
