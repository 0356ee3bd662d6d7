# The part of cloudpickle that raygrad uses; the package itself carries no types.
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import IO, Any

DEFAULT_PROTOCOL: int

class Pickler(pickle.Pickler):
    def __init__(
        self,
        file: IO[bytes],
        protocol: int | None = None,
        buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None,
    ) -> None: ...
    def dump(self, obj: object) -> None: ...

CloudPickler = Pickler

def dump(
    obj: object,
    file: IO[bytes],
    protocol: int | None = None,
    buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None,
) -> None: ...
def dumps(
    obj: object,
    protocol: int | None = None,
    buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None,
) -> bytes: ...

load = pickle.load
loads: Callable[..., Any]

def register_pickle_by_value(module: ModuleType) -> None: ...
def unregister_pickle_by_value(module: ModuleType) -> None: ...
def list_registry_pickle_by_value() -> set[str]: ...
