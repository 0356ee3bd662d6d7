"""`Module` and `Parameter`: named parameters, buffers and submodules, with PyTorch's names, state and hooks.

A parameter is an ordinary leaf tensor with a mark, so ops, optimisers and sessions see nothing new. The layers that are
made of modules are in `layers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.autograd.core.hooks import HookDict, RemovableHandle
from raygrad.autograd.core.modes import no_grad
from raygrad.autograd.dispatch.creation import as_tensor
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError
from raygrad.tracebacks import PublicMethods, public

_MARK = "_is_param"


_PARAMETER = """`Parameter(data, requires_grad=True)`: a leaf tensor, which a module it is assigned to registers.

`isinstance(tensor, Parameter)` tells whether a tensor was made so.
"""

if TYPE_CHECKING:

    class Parameter(Tensor):
        """What is made below, as a type checker is to see it."""

        def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter: ...
        def __init__(self, data: Any, requires_grad: bool = True) -> None: ...

else:

    class _MarkedTensor(type):
        """The type of `Parameter`, whose instances are tensors with the mark."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, Tensor) and getattr(instance, _MARK, False)

        @public
        def __call__(cls, data: Any, requires_grad: bool = True) -> Tensor:
            """Return a leaf with the memory of `data`, marked as a parameter."""
            leaf = as_tensor(data).detach()
            leaf.requires_grad = requires_grad
            return _marked(leaf)

    Parameter = _MarkedTensor("Parameter", (), {"__doc__": _PARAMETER, "__module__": __name__})


def _marked(tensor: Tensor) -> Tensor:
    setattr(tensor, _MARK, True)
    return tensor


class LoadedKeys(NamedTuple):
    """What `load_state_dict` returns: names that were expected and not found, and the other way round."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(PublicMethods):
    """The base class of models: an attribute that is a `Parameter` or a `Module` is registered under its name.

    Subclasses call `super().__init__()` first, and define `forward`; `module(...)` calls it between the hooks.
    """

    _called_within = frozenset(("forward",))
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _transient: set[str]
    _forward_pre_hooks: HookDict
    _forward_hooks: HookDict

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_transient"] = set()
        own["_forward_pre_hooks"], own["_forward_hooks"] = HookDict(), HookDict()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = _as_arguments(changed)
        result = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    # ---- attributes --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if "_parameters" not in tables:
            if isinstance(value, Parameter | Module):
                raise AttributeError(f"cannot assign '{name}' before Module.__init__() call")
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self.register_module(name, value)
        elif name in tables["_parameters"]:
            if value is not None:
                kind = type(value).__name__
                raise TypeError(f"cannot assign {kind} as parameter '{name}' (raygrad.nn.Parameter or None expected)")
            tables["_parameters"][name] = None
        elif name in tables["_modules"] and value is None:
            tables["_modules"][name] = None
        elif name in tables["_buffers"] and (value is None or isinstance(value, Tensor)):
            tables["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for parameter in self._parameters.values():
            if parameter is not None:
                _marked(parameter)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _register(self, table: dict[str, Any], kind: str, name: str, value: Any) -> None:
        if not name or "." in name:
            raise KeyError(f"{kind} name can't be empty or contain a dot, got '{name}'")
        if name not in table and (name in self.__dict__ or name in dir(type(self))):
            raise KeyError(f"attribute '{name}' already exists")
        for other in (self._parameters, self._buffers, self._modules):
            if other is not table:
                other.pop(name, None)
        table[name] = value

    def register_parameter(self, name: str, param: Any) -> None:
        """Register a parameter, or None for one that is left out.

        Raises:
            TypeError: it is no `Parameter`.
            ValueError: it is not a leaf.
            KeyError: a name with a dot, or of another attribute.
        """
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {type(param).__name__} object to parameter '{name}' (raygrad.nn.Parameter or None "
                "required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}': assign Parameter(tensor.detach())")
        self._register(self._parameters, "parameter", name, param)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a submodule, or None for one that is left out; see `register_parameter` for names."""
        if module is not None and not isinstance(module, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._register(self._modules, "module", name, module)

    add_module = register_module

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state and no parameter; it is in the `state_dict` if it is `persistent`."""
        if tensor is not None and not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"cannot assign {type(tensor).__name__} object to buffer '{name}' (Tensor or None required)"
            )
        self._register(self._buffers, "buffer", name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    # ---- what there is -----------------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the direct submodules and their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """Iterate over the direct submodules."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Iterate over the module and all below it, each once, with their dotted names."""
        seen: set[int] = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            name, module = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            below = [(f"{name}.{child}" if name else child, one) for child, one in module.named_children()]
            waiting.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """Iterate over the module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, tensor in module.__dict__[table].items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the parameters, each once, with their dotted names."""
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the parameters, each once: what an optimiser is given."""
        return (parameter for _, parameter in self.named_parameters("", recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers, each once, with their dotted names."""
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers("", recurse))

    # ---- state -------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        """Return the parameters and persistent buffers by their dotted names."""
        found: dict[str, Tensor] = {}
        for path, module in self.named_modules():
            start = f"{path}." if path else ""
            for name, tensor in {**module._parameters, **module._buffers}.items():
                if tensor is not None and name not in module._transient:
                    found[start + name] = tensor
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return the parameters and the persistent buffers by their dotted names, detached; they share memory with the
        module's."""
        return {name: tensor.detach() for name, tensor in self._state().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadedKeys:
        """Copy values into the parameters and buffers, in place.

        Raises:
            RuntimeError: shapes differ; with `strict` also names that are missing or unknown. Nothing is copied then.
        """
        own = self._state()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        wrong = [
            f"size mismatch for {name}: copying a param with shape {list(state_dict[name].shape)} from checkpoint, the "
            f"shape in current model is {list(tensor.shape)}."
            for name, tensor in own.items()
            if name in state_dict and tuple(state_dict[name].shape) != tuple(tensor.shape)
        ]
        if strict and unexpected:
            wrong.append(f"Unexpected key(s) in state_dict: {', '.join(unexpected)}.")
        if strict and missing:
            wrong.append(f"Missing key(s) in state_dict: {', '.join(missing)}.")
        if wrong:
            raise AutogradError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(wrong))
        with no_grad():
            for name, tensor in own.items():
                if name in state_dict:
                    tensor.copy_(as_tensor(state_dict[name]))
        return LoadedKeys(missing, unexpected)

    # ---- modes -------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Any:
        """Set training mode for the module and all below it, and return the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Any:
        """Set evaluation mode: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether gradients flow to the parameters, and return the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters, or make them zero."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Any:
        """Call `fn` on all modules below and on this one, and return the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result other than None replaces the positional arguments."""
        return RemovableHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args, result)` after forward; a result other than None replaces the result."""
        return RemovableHandle(self._forward_hooks, hook)

    # ---- text --------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what `repr` shows beside the submodules."""
        return ""

    def __repr__(self) -> str:
        below = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not below:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join([*_lines(self.extra_repr()), *below]) + "\n)"


def _as_arguments(changed: Any) -> tuple[Any, ...]:
    return changed if isinstance(changed, tuple) else (changed,)  # pyright: ignore[reportUnknownVariableType]


def _lines(text: str) -> Iterable[str]:
    return text.split("\n") if text else ()
