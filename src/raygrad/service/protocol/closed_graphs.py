"""Graphs without pickles: what nodes of user code hold in pickled form is closed before they leave, and pickled by the
side that they come to: filters of warnings, and the nestings that nested Functions are to return again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from raygrad.errors import ProtocolError, ServiceError
from raygrad.proto.codec.checks import fields, integer, one_of, shown, text as text_of
from raygrad.proto.ir.function_nodes import FunctionCall, Settings
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import USER_CODE, Node
from raygrad.proto.ir.runtime_nodes import Emit
from raygrad.proto.ir.signatures import ObservedFixed
from raygrad.workers.code.warning_filters import pack_filters, unpack_filters

from .closed_tensors import closed_pickle, pickle_of_closed
from .closed_values import closed_bytes, opened_bytes
from .named_code import NamedModules

Change = Callable[[bytes], bytes]


def closed_graph(graph: Graph) -> Graph:
    """Return a graph whose pickles, made by this side, are closed values; itself if it has none.

    Raises:
        ServiceError: one of them is not of the data model.
    """
    return _changed(graph, _closed_filters, lambda data: closed_pickle(data, "what a nested Function returned"))


def opened_graph(graph: Graph, modules: NamedModules) -> Graph:
    """Return a graph whose closed values, made by the other side, are pickles of this one's; itself if it has none.

    Raises:
        ProtocolError: what stands there is none.
    """
    return _changed(
        graph,
        lambda data: _opened_filters(data, modules),
        lambda data: pickle_of_closed(data, modules),
    )


def emitted(graph: Graph) -> dict[int, int]:
    """Return, by external of a graph, of how many tensors what the client emits is made: the others hold no pickles.

    Raises:
        ProtocolError: something else than an external is emitted, or one in two ways.
    """
    found: dict[int, int] = {}
    for node in graph.nodes:
        if isinstance(node, Emit):
            packed, count = node.inputs[0] if node.inputs else -1, len(node.inputs) - 1
            if not 0 <= packed < len(graph.externals) or found.setdefault(packed, count) != count:
                raise ProtocolError("an emit does not read what the client emits")
    return found


def _changed(graph: Graph, filters: Change, fixed: Change) -> Graph:
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        new = node
        if isinstance(node, USER_CODE):
            settings = _changed_settings(node.settings, filters)
            if settings is not node.settings:
                new = node._replace(settings=settings)
            if isinstance(new, FunctionCall) and new.expected is not None:
                if any([isinstance(one, ObservedFixed) for one in new.expected.outputs]):
                    outputs = tuple(
                        [
                            ObservedFixed(fixed(one.pickled)) if isinstance(one, ObservedFixed) else one
                            for one in new.expected.outputs
                        ]
                    )
                    new = new._replace(expected=new.expected._replace(outputs=outputs))
        changed = changed or new is not node
        nodes.append(new)
    return graph._replace(nodes=tuple(nodes)) if changed else graph


def _changed_settings(settings: Settings, filters: Change) -> Settings:
    if all([entry[0] != "warnings" or not entry[2] for entry in settings]):
        return settings
    return tuple([(*entry[:2], filters(entry[2])) if entry[0] == "warnings" else entry for entry in settings])


def _closed_filters(data: bytes) -> bytes:
    entries: list[Any] = []
    for action, text, category, module, line in unpack_filters(data):
        entry = (action, _pattern(text), category, _pattern(module), line)
        try:
            closed_bytes(category, "a category of warnings")
        except ServiceError:  # what it matches is captured, and filtered at the client
            continue
        entries.append(entry)
    return closed_bytes(entries, "the filters of warnings")


def _pattern(compiled: Any) -> tuple[str, int] | None:
    return None if compiled is None else (compiled.pattern, compiled.flags)


def _opened_filters(data: Any, modules: NamedModules) -> bytes:
    found: Any = opened_bytes(data, modules)
    filters: list[tuple[Any, ...]] = []
    for entry in cast("list[Any]", found) if type(found) is list else [()]:
        action, text, category, module, line = fields(entry, 5, "filter of warnings")
        one_of(action, "action of a filter", ("error", "always"))
        if not isinstance(category, type) or not issubclass(category, Warning):
            raise ProtocolError(f"the category of a filter of warnings is {shown(category)}")
        filters.append((action, _compiled(text), category, _compiled(module), integer(line, "line of a filter", 0)))
    return pack_filters(filters)


def _compiled(pattern: Any) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    expression, flags = fields(pattern, 2, "pattern of a filter")
    try:
        return re.compile(text_of(expression, "pattern"), integer(flags, "flags of a pattern"))
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"a filter of warnings has no regular expression: {error}") from None
