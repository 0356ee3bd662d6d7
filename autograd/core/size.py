"""`Size`: the shape of a tensor as users see it, a tuple with `numel()`.

The layers below use plain tuples: those of arrays and pending values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, cast, overload


class Size(tuple[int, ...]):
    """The extents of a tensor's dimensions: equal to the tuple of them, with the same hash, and pickled as itself.

    `Size([2, 3])` makes one. A slice of one, and one with a tuple added, is a `Size`, too.
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape: the product of the extents."""
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Size: ...
    def __getitem__(self, key: Any, /) -> Any:
        found = _item(self, key)
        return Size(found) if type(key) is slice else found

    def __add__(self, other: Any, /) -> Any:
        return Size((*self, *cast("tuple[int, ...]", other))) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any, /) -> Any:
        return Size((*cast("tuple[int, ...]", other), *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex, /) -> Size:
        return Size(tuple(self) * count)

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[type[Size], tuple[Iterable[int]]]:
        return Size, (tuple(self),)


_item: Any = cast("Any", tuple).__getitem__
