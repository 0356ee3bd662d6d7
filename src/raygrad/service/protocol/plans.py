"""Plans, clusters, links and paths of draws as plain data for messages of a service, and back, checked.

The server plans; the client shows plans, and names nodes and workers by them."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from raygrad.errors import ProtocolError
from raygrad.proto.codec.checks import (
    Read,
    fields,
    flag,
    integer,
    integers,
    many,
    octets,
    of,
    row,
    shown,
    text,
    texts,
)
from raygrad.scheduler.model.costs import LinkCost
from raygrad.scheduler.model.measured_costs import LINK_FIGURES
from raygrad.scheduler.model.plan import Cluster, Export, InStore, OnWorker, Plan, Segment, WorkerSpec

_FIGURES: Final = (float, int)


def _figure(value: Any, what: str) -> float:
    if type(value) not in _FIGURES:
        raise ProtocolError(f"the {what} is no number but {shown(value)}")
    return float(value)


def _limit(value: Any, what: str) -> int | None:
    return None if value is None else integer(value, what, 1)


def _pairs(what: str, second: Read) -> Read:
    return many(what, row(what, of(integer, what), second))


# ---- clusters ------------------------------------------------------------------------------------------------------

_WORKER: Final = row(
    "worker",
    of(text, "name of a worker"),
    of(texts, "devices of a worker"),
    of(_limit, "memory of a worker"),
    of(_limit, "memory of a worker's GPUs"),
    of(text, "host of a worker"),
    many("resources", row("resource", of(text, "resource"), of(_figure, "amount of a resource"))),
    many("numerics", row("numerics class", of(text, "kind of numerics"), of(text, "class of numerics"))),
    of(flag, "whether a worker is lost"),
    make=lambda parts: WorkerSpec(*parts),
)

_CLUSTER: Final = row("cluster", many("workers", _WORKER), of(flag, "whether saved values stay"))


def cluster_data(cluster: Cluster) -> Any:
    """Return a cluster as plain data."""
    workers = [
        (
            one.name,
            tuple(one.devices),
            one.memory,
            one.gpu_memory,
            one.host,
            tuple([tuple(pair) for pair in one.resources]),
            tuple([tuple(pair) for pair in one.numerics]),
            one.lost,
        )
        for one in cluster.workers
    ]
    return tuple(workers), cluster.saved_stays


def cluster_of(data: Any) -> Cluster:
    """Return the cluster in plain data.

    Raises:
        ProtocolError: it is none.
    """
    return Cluster(*_CLUSTER(data))


# ---- links ---------------------------------------------------------------------------------------------------------


def _cost(value: Any, what: str) -> float:
    if type(value) is not float or not 0.0 <= value < inf:
        raise ProtocolError(f"the {what} is no time or rate but {shown(value)}")
    return value


def _rate(value: Any, what: str) -> float:
    if not (rate := _cost(value, what)):
        raise ProtocolError(f"the {what} is 0")
    return rate


def _link_figure(value: Any, what: str) -> tuple[str, float]:
    name, figure = fields(value, 2, what)
    if name not in LINK_FIGURES:
        raise ProtocolError(f"no {what} is called {shown(name)}")
    return name, (_rate if name.endswith("bandwidth") else _cost)(figure, name)


_LINKS: Final = row(
    "links",
    many("figures of links", of(_link_figure, "figure of links")),
    many(
        "links between hosts",
        row(
            "link",
            of(text, "host of a link"),
            of(text, "host of a link"),
            of(_cost, "latency of a link"),
            of(_rate, "bandwidth of a link"),
        ),
    ),
)


def links_data(figures: Mapping[str, Any]) -> Any:
    """Return what an executor has measured of its links (`Executor.links`) as plain data."""
    links: Mapping[tuple[str, str], LinkCost] = figures.get("links", {})
    return (
        tuple([(name, float(figures[name])) for name in LINK_FIGURES if name in figures]),
        tuple([(*hosts, float(link.hop_seconds), float(link.bandwidth)) for hosts, link in links.items()]),
    )


def links_of(data: Any) -> dict[str, Any]:
    """Return the measured links in plain data.

    Raises:
        ProtocolError: they are none.
    """
    figures, links = _LINKS(data)
    found: dict[str, Any] = dict(figures)
    if links:
        found["links"] = {(source, target): LinkCost(*costs) for source, target, *costs in links}
    return found


# ---- plans ---------------------------------------------------------------------------------------------------------

_EXPORT: Final = row(
    "export",
    of(integers, "values of an export"),
    of(integers, "readers of an export"),
    of(flag, "whether it is saved"),
    of(flag, "whether it is kept"),
    make=lambda fields: Export(*fields),
)

_SEGMENT: Final = row(
    "segment",
    of(integer, "worker of a segment", 0),
    of(integers, "nodes of a segment", 0),
    of(integers, "externals of a segment", 0),
    _pairs("imports", of(integer, "export", 0)),
    many("exports", _EXPORT),
    of(integers, "pins"),
    _pairs("unpins", of(flag, "whether it is the last")),
    of(integers, "segments before", 0),
    *[of(integer, "count of nodes", 0)] * 4,
    *[of(integer, "bytes of a segment", 0)] * 2,
    of(_figure, "predicted seconds"),
    of(integers, "saved pins"),
    of(integers, "copied pins"),
    make=lambda fields: Segment(*fields),
)

_MEMORIES: Final = many("figures of memories", row("figures of a memory", of(text, "memory"), of(integers, "figures")))


def plan_data(plan: Plan) -> Any:
    """Return a plan as plain data."""
    kept = [(value, isinstance(place, OnWorker), *place) for value, place in plan.kept.items()]
    return (
        plan.hash,
        plan.workers,
        tuple([(*one[:4], tuple([tuple(export) for export in one.exports]), *one[5:]) for one in plan.segments]),
        plan.node_worker,
        tuple(kept),
        plan.open_ended,
        plan.crossing_bytes,
        plan.predicted_seconds,
        plan.peaks,
        plan.headroom,
        plan.limits,
    )


def plan_of(data: Any) -> Plan:
    """Return the plan in plain data.

    Raises:
        ProtocolError: it is none.
    """
    parts = fields(data, 11, "plan")
    segments = many("segments", _SEGMENT)(parts[2])
    kept: dict[int, InStore | OnWorker] = {}
    for value, pinned, *place in parts[4]:
        where = integers(tuple(place), "place of a kept value")
        kept[integer(value, "kept value", 0)] = OnWorker(*where) if pinned else InStore(*where)
    return Plan(
        hash=octets(parts[0], "hash of a plan"),
        workers=texts(parts[1], "workers of a plan"),
        segments=segments,
        node_worker=integers(parts[3], "workers of nodes"),
        kept=kept,
        open_ended=flag(parts[5], "whether a plan is open-ended"),
        crossing_bytes=integer(parts[6], "crossing bytes"),
        predicted_seconds=_figure(parts[7], "predicted seconds"),
        peaks=_MEMORIES(parts[8]),
        headroom=_MEMORIES(parts[9]),
        limits=_MEMORIES(parts[10]),
    )


# ---- paths of draws ------------------------------------------------------------------------------------------------


def paths_data(paths: Mapping[int, tuple[Any, ...]]) -> Any:
    """Return the paths of user code as plain data."""
    return tuple([(node, tuple([(*path[0][:2], *path[1:]) for path in drawn])) for node, drawn in paths.items()])


_PATHS: Final = many(
    "paths", row("paths of a node", of(integer, "node", 0), many("paths", of(integers, "path", 0, 1 << 64)))
)


def paths_of(data: Any) -> dict[int, tuple[Any, ...]]:
    """Return the paths in plain data.

    Raises:
        ProtocolError: they are none.
    """
    return {node: tuple(map(_path, drawn)) for node, drawn in _PATHS(data)}


def _path(numbers: tuple[int, ...]) -> tuple[Any, ...]:
    if len(numbers) < 3:
        raise ProtocolError(f"a path is a seed, a key and ordinals, not {len(numbers)} numbers")
    return ((numbers[0], numbers[1]), *numbers[2:])
