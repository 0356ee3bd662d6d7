"""The closed data model: values that cross a service without pickles, as plain data for the codec, and back.

None, bools, numbers of any size, texts, bytes, slices, Ellipsis, dtypes, arrays and scalars of NumPy go as themselves;
lists, tuples, dicts, sets, tensors, devices, errors, the nestings of nested Functions, and what is named
(`named_code`) as lists that begin with a tag. There is nothing else: no state of the user's objects, so that reading
calls nothing but constructors of this file's own choice, and those of errors that may be named. What is one object in
several places comes back as several."""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from raygrad.autograd.core.pytree import LEAF, Structure
from raygrad.autograd.core.size import Size
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import device_named, device_of, is_device_array
from raygrad.autograd.functions.nested import Nesting
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable, ProtocolError, RemoteError, ServiceError
from raygrad.proto.codec.checks import fields, flag, integer, shown, text
from raygrad.proto.codec.frames import decode_frame, encode_frame
from raygrad.proto.codec.value_reader import read_values
from raygrad.proto.codec.value_writer import write_values
from raygrad.workers.code.array_form import NUMERIC, ArrayForm, FormedArray, base_of, form_of, formed
from raygrad.workers.code.unpickling import rebuilt_tensor

from .named_code import BY_VALUE, VALUE, CodeName, NamedModules, error_class, member_of, reference_to, referred

MOST_LINKS: Final = 16
"""Errors that an error refers to as its cause or context, one after the other."""

MOST_SPANNED: Final = 1 << 30
"""The most bytes that an array with steps between its elements may span."""

_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})

_NUMBERS: Final = "biufcmMSU"
"""Kinds of dtypes whose elements are plain bytes."""

_CONTAINERS: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "list": list,
    "tuple": tuple,
    "Size": Size,
    "set": set,
    "frozenset": frozenset,
}

_NESTED: Final[dict[str, type]] = {kind.__name__: kind for kind in (list, tuple, dict, OrderedDict)}
"""Containers of nestings; named tuples go by their names."""

Slots: TypeAlias = Mapping[int, int]
"""By the id of a tensor that does not go along, the number by which it is put back."""

_MARK: Final = "closed"
"""What a frame of `closed_bytes` begins with."""


def closed(value: Any, what: str, slots: Slots | None = None) -> Any:
    """Return a value as plain data for the codec.

    Args:
        what: what it is, for the error.
        slots: the tensors that do not go along.

    Raises:
        ServiceError: something in it is not of the data model; says what, and where.
    """
    return _Closer(what, slots or {}).of(value, "")


def closed_bytes(value: Any, what: str, slots: Slots | None = None) -> bytes:
    """Return the same as bytes, for a place where a pickle would stand."""
    try:
        tree, buffers = write_values([closed(value, what, slots)])
    except NotShippable as error:  # nested too deep
        raise ServiceError(f"{what}: {error}; pass it as arguments or arrays of their own, {BY_VALUE}", VALUE) from None
    return b"".join([bytes(piece) for piece in encode_frame((_MARK, tree), buffers)])


class _Closer:
    """Closes one value."""

    def __init__(self, what: str, slots: Slots) -> None:
        self._what = what
        self._slots = slots
        self._depth = 0

    def of(self, value: Any, path: str) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _ATOMS:
            return value
        array: Any = value
        if kind is np.ndarray or (isinstance(value, np.generic) and kind.__module__ == "numpy"):
            if array.dtype.kind not in _NUMBERS:
                raise self._refused(f"an array of dtype {array.dtype}", path)
            form = form_of(array) if kind is np.ndarray and array.dtype.kind in NUMERIC else None
            return array if form is None else ["laid", base_of(array), *_form_fields(form)]
        if isinstance(value, np.dtype):
            if array.kind not in _NUMBERS:
                raise self._refused(f"the dtype {array}", path)
            return array
        self._depth += 1
        if self._depth > 90:
            raise self._refused("nested deeper than 90 levels (does it hold itself?)", path)
        try:
            return self._tagged(value, kind, path)
        finally:
            self._depth -= 1

    def _tagged(self, value: Any, kind: type[Any], path: str) -> list[Any]:
        of = self.of
        if kind in (list, tuple, Size):
            return [kind.__name__, *[of(one, f"{path}[{place}]") for place, one in enumerate(value)]]
        if kind in (set, frozenset):
            return [kind.__name__, *[of(one, f"{path}{{...}}") for one in value]]
        if kind is dict:
            parts = [[of(key, f"{path} key"), of(one, f"{path}[{key!r}]")] for key, one in value.items()]
            return ["dict", *[part for pair in parts for part in pair]]
        if kind is slice:
            return ["slice", *[of(one, path) for one in (value.start, value.stop, value.step)]]
        if isinstance(value, enum.Enum):
            name = reference_to(kind)
            if name is None:
                raise self._refused(f"a member of {kind.__qualname__}, which has no name to go by", path)
            return ["member", *name, value.name]
        if isinstance(value, type | FunctionType):
            name = reference_to(value)
            if name is None:
                raise self._refused(f"{getattr(value, '__qualname__', value)!r}, code without a name to go by", path)
            return ["named", *name]
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, Device):
            return ["device", str(value)]
        if kind is FormedArray:
            return ["formed", value.base, *_form_fields(value.form)]
        if kind is Nesting:
            return ["nesting", self._structure(value.structure, path), ["tuple", *value.present]]
        if isinstance(value, BaseException):
            return self._error(value, path, MOST_LINKS)
        raise self._refused(f"an object of {kind.__module__}.{kind.__qualname__}", path)

    def _tensor(self, value: Tensor, path: str) -> list[Any]:
        slot = self._slots.get(id(value))
        if slot is not None:
            return ["slot", slot]
        data = value.read()
        if is_device_array(data):
            raise self._refused(f"a tensor on {device_of(data)} inside of another object", path)
        return ["tensor", self.of(data, path), bool(value.requires_grad)]

    def _structure(self, structure: Structure, path: str) -> list[Any]:
        kind: Any = structure.kind
        if kind is None:
            return ["leaf"]
        name = CodeName("", kind.__name__) if _NESTED.get(kind.__name__) is kind else reference_to(kind)
        if name is None:
            raise self._refused(f"a {kind.__qualname__}, whose class has no name to go by", path)
        keys = [self.of(key, path) for key in structure.keys]
        children = [self._structure(one, path) for one in structure.children]
        return ["container", *name, structure.count, ["tuple", *keys], ["tuple", *children]]

    def _error(self, error: BaseException, path: str, links: int) -> list[Any]:
        """Close an error: by the name of its class, with what of its arguments and attributes is of the data model."""
        name = CodeName(type(error).__module__, type(error).__qualname__)
        args = ["tuple", *[self._or_text(one, path) for one in error.args]]
        state = ["dict"]
        for key, one in vars(error).items():
            try:
                state += [str(key), self.of(one, path)]
            except ServiceError:  # an attribute that nobody may need: an error arrives, whatever it holds
                continue
        linked = [
            None if one is None or links <= 0 else self._error(one, path, links - 1)
            for one in (error.__cause__, None if error.__suppress_context__ else error.__context__)
        ]
        try:
            message = str(error)
        except Exception:  # of the user's `__str__`
            message = ""
        return ["error", *name, message, args, state, *linked]

    def _or_text(self, value: Any, path: str) -> Any:
        try:
            return self.of(value, path)
        except ServiceError:
            return repr(value)[:1000]

    def _refused(self, found: str, path: str) -> ServiceError:
        where = f" (at {path[:200].strip()})" if path else ""
        return ServiceError(
            f"{self._what} is or holds {found}{where}, which does not pass to or from the service without pickle: "
            "give it numbers, texts, arrays, tensors, lists, tuples, dicts, sets, or functions, classes and members of "
            f"enumerations by name, {BY_VALUE}",
            VALUE,
        )


def _form_fields(form: ArrayForm) -> list[Any]:
    dtype, shape, strides, aligned, whole = form
    return [dtype, ["tuple", *shape], ["tuple", *strides], aligned, whole]


# ---- and back --------------------------------------------------------------------------------------------------------


def opened(tree: Any, modules: NamedModules, tensors: Sequence[Tensor] = ()) -> Any:
    """Return the value that `closed` was given; `tensors` are put into its slots.

    Raises:
        ProtocolError: it is no value of the data model.
        ServiceError: it names what may not be named.
    """
    return _Opener(modules, tensors).of(tree)


def opened_bytes(data: Any, modules: NamedModules, tensors: Sequence[Tensor] = ()) -> Any:
    """Return the value that `closed_bytes` was given. Raises as `opened` does."""
    if not isinstance(data, bytes | memoryview):
        raise ProtocolError(f"a closed value is not bytes but {shown(data)}")
    frame = decode_frame(bytes(cast("Any", data)))
    mark, tree = fields(frame.header, 2, "header of a closed value")
    if mark != _MARK:
        raise ProtocolError(f"a closed value begins with {shown(mark)}")
    (found,) = fields(tuple(read_values(tree, frame.buffers)), 1, "closed value")
    return opened(found, modules, tensors)


class _Opener:
    """Opens one value."""

    def __init__(self, modules: NamedModules, tensors: Sequence[Tensor]) -> None:
        self._modules = modules
        self._tensors = tensors

    def of(self, tree: Any) -> Any:
        kind = cast("type[Any]", type(tree))
        if kind in _ATOMS or kind is np.ndarray or isinstance(tree, np.generic | np.dtype):
            return cast("Any", tree)
        if kind is not list or not tree or type(tree[0]) is not str:
            raise ProtocolError(f"no value of the data model is {shown(tree)}")
        tag, *parts = tree
        if tag in _CONTAINERS:
            return self._container(tag, parts)
        read = _READ.get(tag)
        if read is None:
            raise ProtocolError(f"no value of the data model has the tag {shown(tag)}")
        return read(self, parts)

    def inside(self, tree: Any) -> Any:
        """Open a part of a container: its arrays are its own, and may be written to, as those of a copy may be."""
        return tree.copy() if type(tree) is np.ndarray else self.of(tree)

    def _container(self, tag: str, parts: Sequence[Any]) -> Any:
        items = [self.inside(part) for part in parts]
        try:
            return _CONTAINERS[tag](items)
        except TypeError as error:
            raise ProtocolError(f"a set holds what no set can: {error}") from None

    def dict_of(self, parts: Sequence[Any]) -> dict[Any, Any]:
        items = [self.inside(part) for part in parts]
        try:
            return dict(zip(items[::2], items[1::2], strict=True))
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"a dict holds what no dict can: {error}") from None

    def slot(self, parts: Sequence[Any]) -> Tensor:
        (number,) = fields(tuple(parts), 1, "slot of a tensor")
        return self._tensors[integer(number, "slot of a tensor", 0, len(self._tensors))]

    def tensor(self, parts: Sequence[Any]) -> Tensor:
        array, requires_grad = fields(tuple(parts), 2, "tensor")
        return rebuilt_tensor(_array(array, "data of a tensor"), flag(requires_grad, "whether a tensor requires grad"))

    def formed(self, parts: Sequence[Any]) -> FormedArray:
        base, dtype, shape, strides, aligned, whole = fields(tuple(parts), 6, "array of a form")
        form = ArrayForm(
            text(dtype, "dtype of a form"),
            self._integers(shape, "shape of a form"),
            self._integers(strides, "strides of a form"),
            flag(aligned, "whether an array is aligned"),
            flag(whole, "whether an array is whole"),
        )
        array = FormedArray(_array(base, "base of an array"), form)
        _check_form(array)
        return array

    def laid(self, parts: Sequence[Any]) -> Any:
        array = self.formed(parts)
        return formed(array.base, array.form)

    def _integers(self, tree: Any, what: str) -> tuple[int, ...]:
        found = self.of(tree)
        if type(found) is not tuple:
            raise ProtocolError(f"the {what} is {shown(found)}")
        return tuple([integer(one, what) for one in cast("tuple[Any, ...]", found)])

    def named(self, parts: Sequence[Any]) -> Any:
        return referred(_name(parts), self._modules)

    def member(self, parts: Sequence[Any]) -> enum.Enum:
        *name, member = fields(tuple(parts), 3, "member of an enumeration")
        return member_of(_name(name), text(member, "name of a member"), self._modules)

    def nesting(self, parts: Sequence[Any]) -> Nesting:
        structure, present = fields(tuple(parts), 2, "nesting")
        found = self.of(present)
        if type(found) is not tuple:
            raise ProtocolError(f"the places of a nesting are {shown(found)}")
        places = tuple([flag(one, "place of a nesting") for one in cast("tuple[Any, ...]", found)])
        made = self._structure(structure)
        if made.count != len(places):
            raise ProtocolError(f"a nesting of {made.count} leaves speaks of {len(places)}")
        return Nesting(made, places)

    def _structure(self, tree: Any) -> Structure:
        if type(tree) is not list or not tree:
            raise ProtocolError(f"a structure is {shown(tree)}")
        tag, *parts = cast("list[Any]", tree)
        if tag == "leaf":
            return LEAF
        module, qualname, count, keys, children = fields(tuple(parts), 5, "structure")
        kind: Any = None
        if module == "":
            kind = _NESTED.get(text(qualname, "container"))
        else:
            kind = _named_tuple(referred(_name((module, qualname)), self._modules))
        if kind is None:
            raise ProtocolError(f"a structure has containers of {shown(qualname)}")
        found = self.of(keys)
        inner: list[Any] = cast("list[Any]", children) if type(children) is list else []
        if type(found) is not tuple or inner[:1] != ["tuple"]:
            raise ProtocolError("a structure without keys or children")
        # one text for each key, as there is where it was written: pickles of equal nestings are equal
        interned = tuple([sys.intern(key) if type(key) is str else key for key in cast("tuple[Any, ...]", found)])
        below = tuple([self._structure(one) for one in inner[1:]])
        if integer(count, "leaves of a structure", 0) != sum([one.count for one in below]):
            raise ProtocolError("a structure has other leaves than it says")
        return Structure(kind, interned, below, count)

    def error(self, parts: Sequence[Any]) -> BaseException:
        module, qualname, message, args, state, cause, context = fields(tuple(parts), 7, "error")
        name, said = _name((module, qualname)), text(message, "message of an error")
        given, attributes = self.of(args), self.of(state)
        if type(given) is not tuple or type(attributes) is not dict:
            raise ProtocolError("an error has no arguments or no attributes")
        made = _error_of(error_class(name, self._modules), name, said, cast("tuple[Any, ...]", given))
        for key, value in cast("dict[Any, Any]", attributes).items():
            made.__dict__[text(key, "attribute of an error")] = value
        made.__cause__ = self._linked(cause)
        if cause is None:
            made.__suppress_context__ = False
        made.__context__ = self._linked(context)
        return made

    def _linked(self, tree: Any) -> BaseException | None:
        found = self.of(tree)
        if found is not None and not isinstance(found, BaseException):
            raise ProtocolError(f"an error was raised from {shown(found)}")
        return found


def _named_tuple(found: Any) -> Any:
    """Return a class of named tuples; None for what is none."""
    kind: Any = found
    if not isinstance(found, type) or tuple not in kind.__mro__ or type(kind.__dict__.get("_fields")) is not tuple:
        return None
    return kind


def _error_of(kind: type[Exception] | None, name: CodeName, message: str, args: tuple[Any, ...]) -> Exception:
    if kind is None:
        return RemoteError(f"{name}: {message}", str(name))
    try:
        made = kind(*args)
    except Exception:  # of any kind: a constructor that takes other arguments, of the user's, perhaps
        made = kind.__new__(kind)
    made.args = args
    return made


def _name(parts: Sequence[Any]) -> CodeName:
    module, qualname = fields(tuple(parts), 2, "name of code")
    return CodeName(text(module, "module of a name"), text(qualname, "name of code"))


def _array(value: Any, what: str) -> Any:
    if type(value) is not np.ndarray:
        raise ProtocolError(f"the {what} is no array but {shown(value)}")
    return value


def _check_form(array: FormedArray) -> None:
    """Raises ProtocolError if an array does not have the elements that its form says, or memory that it would span."""
    form, base = array.form, array.base
    if len(form.shape) != len(form.strides) or any([extent < 0 for extent in form.shape]):
        raise ProtocolError(f"no array has the form {shown(tuple(form))}")
    try:
        dtype = np.dtype(form.dtype)
    except (TypeError, ValueError):
        raise ProtocolError(f"no array is of dtype {shown(form.dtype)}") from None
    reach = sum([abs((extent - 1) * stride) for extent, stride in zip(form.shape, form.strides, strict=True)])
    spanned = 0 if 0 in form.shape else reach + dtype.itemsize
    fits = base.nbytes == spanned if form.whole else base.shape == form.shape and spanned <= MOST_SPANNED
    if dtype.kind not in _NUMBERS or not fits:
        raise ProtocolError("an array does not have the bytes that its form says")


def _device(_opener: _Opener, parts: Sequence[Any]) -> Device:
    (name,) = fields(tuple(parts), 1, "device")
    try:
        return device_named(text(name, "device"))
    except (RuntimeError, ValueError) as error:
        raise ProtocolError(f"no device is called {shown(name)}") from error


_READ: Final[dict[str, Callable[[_Opener, Sequence[Any]], Any]]] = {
    "dict": _Opener.dict_of,
    "slice": lambda opener, parts: slice(*[opener.of(one) for one in fields(tuple(parts), 3, "slice")]),
    "slot": _Opener.slot,
    "tensor": _Opener.tensor,
    "formed": _Opener.formed,
    "laid": _Opener.laid,
    "named": _Opener.named,
    "member": _Opener.member,
    "nesting": _Opener.nesting,
    "device": _device,
    "error": _Opener.error,
}
