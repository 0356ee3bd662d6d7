"""Shapes of user code: the places in which code can hold a value, with how to read and to replace the value."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple


class Shape(NamedTuple):
    """A piece of code that holds `content` somewhere."""

    code: Any
    read: Callable[[Any], Any]
    """Returns the content from the code, or from a copy of it."""
    replace: Callable[[Any], None] | None
    """Puts another content in the place of the first; None where the place is fixed."""


def closure(content: Any) -> Shape:
    def code() -> Any:
        return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(code, lambda copy: copy(), replace)


def within(container: Any, read: Callable[[Any], Any], replace: Callable[[Any], None] | None) -> Shape:
    """A function whose closure holds a container."""

    def code() -> Any:
        return container

    return Shape(code, lambda copy: read(copy()), replace)


def in_dict(content: Any) -> Shape:
    held = {"key": content}
    return within(held, lambda value: value["key"], lambda new: held.update(key=new))


def in_list(content: Any) -> Shape:
    held = [content]
    return within(held, lambda value: value[0], lambda new: held.__setitem__(0, new))


def in_tuple(content: Any) -> Shape:
    return within((content,), lambda value: value[0], None)


def in_set(content: Any) -> Shape:
    held = {content}

    def replace(new: Any) -> None:
        held.clear()
        held.add(new)

    return within(held, lambda value: next(iter(value)), replace)


def in_deque(content: Any) -> Shape:
    held = deque([content])
    return within(held, lambda value: value[0], lambda new: held.__setitem__(0, new))


def in_dict_subclass(content: Any) -> Shape:
    class Table(dict[str, Any]):
        pass

    held = Table(key=content)
    return within(held, lambda value: value["key"], lambda new: held.update(key=new))


def dict_key(content: Any) -> Shape:
    held = {content: 1}

    def replace(new: Any) -> None:
        held.clear()
        held[new] = 1

    return within(held, lambda value: next(iter(value)), replace)


def default(content: Any) -> Shape:
    def code(value: Any = content) -> Any:
        return value

    def replace(new: Any) -> None:
        code.__defaults__ = (new,)

    return Shape(code, lambda copy: copy(), replace)


def keyword_default(content: Any) -> Shape:
    def code(*, value: Any = content) -> Any:
        return value

    def replace(new: Any) -> None:
        code.__kwdefaults__ = {"value": new}

    return Shape(code, lambda copy: copy(), replace)


def function_attribute(content: Any) -> Shape:
    def code() -> Any:
        return None

    holder: Any = code
    holder.note = content
    return Shape(code, lambda copy: copy.note, lambda new: setattr(holder, "note", new))


def _of_module(source: str, name: str, **space: Any) -> Any:
    """Return a name of a module of the user's that is in no file."""
    globals_: dict[str, Any] = {"__name__": "__main__", **space}
    exec(source, globals_)
    return globals_[name]


def global_variable(content: Any) -> Shape:
    code = _of_module("def code():\n    return VALUE", "code", VALUE=content)
    return Shape(code, lambda copy: copy(), lambda new: code.__globals__.update(VALUE=new))


def global_of_inner_function(content: Any) -> Shape:
    code = _of_module("def code():\n    return (lambda: VALUE)()", "code", VALUE=content)
    return Shape(code, lambda copy: copy(), lambda new: code.__globals__.update(VALUE=new))


def mutually_recursive_globals(content: Any) -> Shape:
    source = "def even(n):\n    return VALUE if n == 0 else odd(n - 1)\ndef odd(n):\n    return even(n - 1)"
    code = _of_module(source, "odd", VALUE=content)
    return Shape(code, lambda copy: copy(3), lambda new: code.__globals__.update(VALUE=new))


def recursive_function(content: Any) -> Shape:
    def code(again: bool = True) -> Any:
        return code(False) if again else content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(code, lambda copy: copy(), replace)


def nested_function(content: Any) -> Shape:
    def inner() -> Any:
        return content

    def code() -> Any:
        return inner()

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(code, lambda copy: copy(), replace)


def wrapper(content: Any) -> Shape:
    def wrapped() -> Any:
        return content

    @functools.wraps(wrapped)
    def code() -> Any:
        return wrapped()

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(code, lambda copy: copy.__wrapped__(), replace)


def cached(content: Any) -> Shape:
    @functools.lru_cache
    def code() -> Any:
        return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(code, lambda copy: copy.__wrapped__(), replace)


def _first(value: Any) -> Any:
    return value


def partial_argument(content: Any) -> Shape:
    return Shape(functools.partial(_first, content), lambda copy: copy(), None)


def partial_keyword(content: Any) -> Shape:
    return Shape(functools.partial(_first, value=content), lambda copy: copy(), None)


def partial_function(content: Any) -> Shape:
    inner = closure(content)
    return Shape(functools.partial(inner.code), lambda copy: copy(), inner.replace)


class Attribute:
    """An instance with a dict of attributes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value

    def method(self) -> Any:
        return self.value

    @property
    def doubled(self) -> Any:
        return self.value


class Slotted:
    """An instance with a slot."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


@dataclass
class Record:
    """A dataclass."""

    value: Any

    def __call__(self) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass whose instances have slots, with all kinds of fields and a property."""

    value: Any
    kind: ClassVar[str] = "frozen"
    notes: list[str] = field(default_factory=list[str], metadata={"unit": "m"}, kw_only=True)

    @property
    def twice(self) -> Any:
        return (self.value, self.value)


def callable_object(content: Any) -> Shape:
    code = Attribute(content)
    return Shape(code, lambda copy: copy(), lambda new: setattr(code, "value", new))


def callable_object_with_slots(content: Any) -> Shape:
    code = Slotted(content)
    return Shape(code, lambda copy: copy(), lambda new: setattr(code, "value", new))


def data_class(content: Any) -> Shape:
    code = Record(content)
    return Shape(code, lambda copy: copy(), lambda new: setattr(code, "value", new))


def frozen_data_class(content: Any) -> Shape:
    held = Frozen(content)
    return within(held, lambda value: value.value, lambda new: object.__setattr__(held, "value", new))


def bound_method(content: Any) -> Shape:
    owner = Attribute(content)
    return Shape(owner.method, lambda copy: copy(), lambda new: setattr(owner, "value", new))


def namespace(content: Any) -> Shape:
    held = SimpleNamespace(value=content)
    return within(held, lambda value: value.value, lambda new: setattr(held, "value", new))


def instance_in_closure(content: Any) -> Shape:
    held = Attribute(content)
    return within(held, lambda value: value.value, lambda new: setattr(held, "value", new))


def class_attribute(content: Any) -> Shape:
    class Code:
        value = content

    return Shape(Code, lambda copy: copy.value, lambda new: setattr(Code, "value", new))


def class_in_closure(content: Any) -> Shape:
    class Code:
        value = content

    return within(Code, lambda value: value.value, lambda new: setattr(Code, "value", new))


def method_of_class(content: Any) -> Shape:
    class Code:
        def method(self) -> Any:
            return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy().method(), replace)


def inherited_method(content: Any) -> Shape:
    class Base:
        def method(self) -> Any:
            return content

    class Code(Base):
        pass

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy().method(), replace)


def static_method(content: Any) -> Shape:
    class Code:
        @staticmethod
        def method() -> Any:
            return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy.method(), replace)


def class_method(content: Any) -> Shape:
    class Code:
        @classmethod
        def method(cls) -> Any:
            return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy.method(), replace)


def property_of_class(content: Any) -> Shape:
    class Code:
        @property
        def value(self) -> Any:
            return content

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy().value, replace)


def property_deleter(content: Any) -> Shape:
    def delete(self: Any) -> Any:
        return content

    class Code:
        value = property(None, None, delete)

    def replace(new: Any) -> None:
        nonlocal content
        content = new

    return Shape(Code, lambda copy: copy.value.fdel(None), replace)


def module_attribute(content: Any) -> Shape:
    module: Any = ModuleType("settings_of_the_user")
    module.value = content
    code = _of_module("def code():\n    return settings.value", "code", settings=module)
    return Shape(code, lambda copy: copy(), lambda new: setattr(module, "value", new))


def code_object(content: Any) -> Shape:
    """The code itself of a function counts: a constant in it stands for the content."""
    code = _of_module(f"def code():\n    return {content!r}", "code")

    def replace(new: Any) -> None:
        code.__code__ = _of_module(f"def code():\n    return {new!r}", "code").__code__

    assert isinstance(code, FunctionType)
    return Shape(code, lambda copy: copy(), replace)


SHAPES: dict[str, Callable[[Any], Shape]] = {
    made.__name__: made
    for made in (
        *(closure, in_dict, in_list, in_tuple, in_set, in_deque, in_dict_subclass, dict_key),
        *(default, keyword_default, function_attribute, global_variable, global_of_inner_function),
        *(mutually_recursive_globals, recursive_function, nested_function, wrapper, cached),
        *(partial_argument, partial_keyword, partial_function, callable_object, callable_object_with_slots),
        *(
            data_class,
            frozen_data_class,
            bound_method,
            namespace,
            instance_in_closure,
            class_attribute,
            class_in_closure,
        ),
        *(method_of_class, inherited_method, static_method, class_method, property_of_class, property_deleter),
        *(module_attribute, code_object),
    )
}
