"""Random streams: names of what user code draws, which depend on the program alone and not on where or when code runs.

A *path* names an application of a Function, a pass, or the registration of a hook: the stream that it was made in, and
its ordinal there. Code that runs with a path draws from a `RandomStream` of its own, which is opened by its first draw,
application or pass. `dispatch.random_numbers` draws; the client's own draws come from one sequential generator instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .modes import Modes

DEFAULT_SEED: Final = 0

_BITS: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15

# Parts of paths besides ordinals, which are smaller.
PASS: Final = 1 << 40
HOOK: Final = 2 << 40
BACKWARD: Final = 3 << 40
JVP: Final = 4 << 40
VMAP: Final = 5 << 40
PACK: Final = 6 << 40
RESEEDED: Final = 7 << 40
EXAMPLES: Final = 8 << 40
"""Of code that runs once for all examples of a batch, which have streams of their own: it must not draw."""
REFUSED: Final = 9 << 40
"""Of code that runs for one example under vmap with randomness "error"."""
TANGENTS: Final = 11 << 40
"""Of code that a session runs for one tangent of several, which eager code runs once for all of them."""
EXAMPLE: Final = 10 << 40
"""Of a pass for one example, whose number follows, under vmap with randomness "different"."""


class StreamOrigin(NamedTuple):
    """What the numbers of a stream depend on: the manual seed, and 64 bits that stand for the paths behind it."""

    seed: int
    key: int
    paths: tuple[Any, ...] = ()
    """The paths that it was opened for; () for the stream of a program, and for a stream that came from elsewhere."""


Path: TypeAlias = tuple[Any, ...]
"""The origin in which something was made, then numbers: those of an application are (origin, ordinal). On workers only
seed and key of the origin are known."""


def mixed(key: int, part: int) -> int:
    """Return 64 bits that stand for `part` behind what `key` stands for (the finaliser of SplitMix64): for one key,
    other ones for each part."""
    bits = (key + (part + 1) * _GOLDEN) & _BITS
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _BITS
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _BITS
    return bits ^ bits >> 31


def origin_for(paths: Sequence[Path]) -> StreamOrigin:
    """Return the origin of the stream of code that runs for paths: an application, or an application in a pass. The
    seed is that of the last one."""
    key = 0
    for path in paths:
        origin = path[0]
        key = mixed(mixed(key, origin[0]), origin[1])
        for part in path[1:]:
            key = mixed(key, part)
    return StreamOrigin(paths[-1][0][0], key, tuple(paths))


class _Alike(dict[int, tuple[Path, ...]]):
    """Paths of user code that are the same for each node."""

    def __missing__(self, node: int) -> tuple[Path, ...]:
        return _SAME


_SAME: Final = ((StreamOrigin(DEFAULT_SEED, 0), 0),) * 8
ALL_ALIKE: Final = _Alike()
"""The paths of a call that names none."""


class RandomStream:
    """The stream of one piece of running code, or of the program: hands out the ordinals of what is made in it.

    Attributes:
        origin: what it depends on.
        applications: the paths of the applications to come, a tuple each.
        draws: the ordinals of the draws to come.
    """

    __slots__ = ("_numbers", "_of_hooks", "_of_passes", "applications", "draws", "origin")

    applications: Iterator[Path]

    def __init__(self, origin: StreamOrigin) -> None:
        self.reseed(origin)

    def reseed(self, origin: StreamOrigin, positions: Sequence[int] = (0, 0, 0, 0)) -> None:
        """Go on as a stream of `origin`, from `positions`."""
        self.origin = origin
        self._numbers = applied, passed, hooked, drawn = [itertools.count(start) for start in positions]
        always = itertools.repeat
        self.applications = zip(always(origin), applied, strict=False)
        self._of_passes = zip(always(origin), always(PASS), passed, strict=False)
        self._of_hooks = zip(always(origin), always(HOOK), hooked, strict=False)
        self.draws = drawn

    @property
    def positions(self) -> tuple[int, ...]:
        """How many applications, passes, hooks and draws there have been."""
        return tuple([int(repr(numbers)[6:-1]) for numbers in self._numbers])  # `count(7)`: asking takes none

    def refuse_draws(self, why: int = REFUSED) -> None:
        """Mark the applications to come as such that must not draw."""
        self.applications = zip(itertools.repeat(self.origin), self._numbers[0], itertools.repeat(why), strict=False)

    def is_marked(self, mark: int) -> bool:
        """Tell whether a mark is among the parts of the paths for which this code runs, or of those around it."""
        waiting = [*self.origin.paths]
        while waiting:
            path = waiting.pop()
            if mark in path[1:]:
                return True
            waiting += getattr(path[0], "paths", ())  # plain data, where it has travelled
        return False

    def next_pass(self) -> Path:
        """Return the path of a pass that begins."""
        return next(self._of_passes)

    def next_hook(self) -> Path:
        """Return the path of a hook that is registered."""
        return next(self._of_hooks)


PROGRAM: Final = RandomStream(StreamOrigin(DEFAULT_SEED, 0))
"""The stream of the program itself, outside of user code. Its draws are those of the sequential generator."""


class UnopenedStream:
    """The stream of code that runs for several paths, not opened before it is asked for."""

    __slots__ = ("_opened", "paths")

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self._opened: RandomStream | None = None

    def opened(self) -> RandomStream:
        """Return the stream."""
        if self._opened is None:
            self._opened = RandomStream(origin_for(self.paths))
        return self._opened


class PassStream:
    """The streams of the code that runs in one pass: of the backward of each node, and one of all else.

    Attributes:
        path: the path of the pass; None until it begins, unless it goes on with another one.
        node: the node that is running.
        application: the path of the application whose backward is running, where `node` does not tell it.
        of_node: that path, and the stream of this backward once it has drawn; None when another run of it begins.
        of_pass: the stream of all else that runs, once it has drawn.
    """

    path: Path | None = None
    node: Any = None
    application: Path | None = None
    of_node: tuple[Any, RandomStream] | None = None
    of_pass: RandomStream | None = None

    def marked(self, *marks: int) -> PassStream:
        """Return the streams of the same code where it runs for examples of a batch."""
        made = PassStream()
        assert self.path is not None
        made.path, made.application = (*self.path, *marks), self.application or getattr(self.node, "_path", None)
        return made

    def for_example(self, number: int, randomness: str) -> PassStream:
        """Return the streams of the same code where it runs for one example of a batch."""
        return self.marked(*example_marks(number, randomness))

    def opened(self) -> RandomStream:
        """Return the stream of the code that is running."""
        assert self.path is not None
        of = self.application or getattr(self.node, "_path", None)
        if of is None:
            if self.of_pass is None:
                self.of_pass = RandomStream(origin_for((self.path,)))
            return self.of_pass
        if self.of_node is None or self.of_node[0] is not of:
            self.of_node = (of, RandomStream(origin_for(((*of, BACKWARD), self.path))))
        return self.of_node[1]


def example_marks(number: int, randomness: str) -> tuple[int, ...]:
    """Return what a path says of an example of a batch."""
    return () if randomness == "same" else (REFUSED,) if randomness == "error" else (EXAMPLE, number)


def path_for_example(path: Path, number: int, randomness: str) -> Path:
    """Return the path of the application to one example of a batch, given that to all of them: a generated rule applies
    a Function to one after the other."""
    return path if randomness == "same" else (path[0], path[1] + number, *path[2:])


StreamHolder: TypeAlias = "RandomStream | Path | UnopenedStream | PassStream"
"""What `Modes.stream` is: the stream of the code that is running, or what opens it. The path of an application whose
forward is running is the form that costs nothing."""


def current_stream(here: Modes) -> RandomStream:
    """Return the stream of the code that is running."""
    current: Any = here.stream
    if type(current) is RandomStream:
        return current
    if type(current) is tuple:
        path: Any = here.stream
        here.stream = made = RandomStream(origin_for((path,)))
        return made
    return current.opened()


@contextmanager
def running_with(here: Modes, stream: StreamHolder) -> Generator[None]:
    """Let code in a block draw from another stream."""
    outer, here.stream = here.stream, stream
    try:
        yield
    finally:
        here.stream = outer


def aside(here: Modes) -> AbstractContextManager[None]:
    """Return a block for code of the user's that eager programs do not run, such as `infer`: what it draws and applies
    is not counted."""
    return running_with(here, UnopenedStream(_SAME[0]))


def path_of_application(here: Modes) -> Path:
    """Return the path of an application that begins."""
    stream: Any = here.stream
    return next((stream if type(stream) is RandomStream else current_stream(here)).applications)


def path_of_pass(here: Modes, within: bool) -> Path:
    """Return the path of a pass that begins; with `within`, that of the pass that it is a part of, if there is one."""
    current: Any = here.stream
    if within and isinstance(current, PassStream) and current.path is not None:
        return current.path
    return current_stream(here).next_pass()


def path_of_registration(here: Modes) -> Path:
    """Return the path of a hook that is registered."""
    return current_stream(here).next_hook()
