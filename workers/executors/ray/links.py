"""Benchmark of Ray calls and of links between workers: latency and bandwidth, measured at startup.

The planner's cost model starts from its figures. A few calls of `WorkerActor.pass_on` take two tenths of a second in
all. The shortest of several times counts, since other load only adds. Hosts are measured pairwise, by one worker each;
what storing objects costs, by all workers of one host at once, which contend for its cores and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import permutations
from statistics import median
from typing import Any, Final

from raygrad.scheduler.model.costs import LinkCost

REPETITIONS: Final = 5
"""Repetitions of each measurement."""

CHAIN_LENGTH: Final = 6
"""Calls in a chain, each of which waits for the one before; sent ahead, as segments are."""

LARGE_BYTES: Final = 4 << 20
"""Bytes of the transfer that measures bandwidth, which goes through the object store."""

COMPUTE_SECONDS: Final = 0.003
"""CPU seconds of the call that follows a large object, which storing it may delay."""

MAX_STORING: Final = 64
"""Workers that store objects at once."""

MAX_PAIRS: Final = 6
"""Pairs of hosts that are measured; the others get the median."""

DEADLINE: Final = 10.0
"""The most seconds of one measurement: a worker that does not answer shows in the first run, not here."""


def measure_links(ray: Any, actors: Sequence[Any], hosts: Sequence[str]) -> dict[str, Any]:
    """Return the measured latencies and bandwidths as fields of `Costs`; nothing if an actor does not answer in
    time."""
    try:
        return _Probe(ray).measure(actors, hosts)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
        return {}


class _Probe:
    """The measurements of one `measure_links`."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def measure(self, actors: Sequence[Any], hosts: Sequence[str]) -> dict[str, Any]:
        first = actors[0]
        self.ray.get([actor.pass_on.remote(0) for actor in actors], timeout=DEADLINE)  # connections are made
        submit, round_trip = self.best(lambda: self.round_trip(first))
        ahead = self.best(lambda: (self.chain([first] * CHAIN_LENGTH, waiting=False), 0.0))[0]
        follow = (ahead - round_trip) / (CHAIN_LENGTH - 1)  # a worker keeps the order of its calls itself
        figures: dict[str, Any] = {
            "submit_seconds": submit,
            "send_seconds": max(round_trip - submit, 0.0) / 2,
            "return_seconds": max(round_trip - submit, 0.0) / 2,
            "call_seconds": max(ahead / CHAIN_LENGTH, submit),
            "follow_seconds": max(follow, 0.0),
        }
        one_of = {host: actor for actor, host in zip(reversed(actors), reversed(hosts), strict=True)}
        links = {
            pair: self.link(one_of[pair[0]], one_of[pair[1]], round_trip)
            for pair in list(permutations(one_of, 2))[:MAX_PAIRS]
        }
        for actor, host in zip(actors, hosts, strict=True):
            if actor is not one_of[host] and (host, host) not in links:
                links[host, host] = self.link(one_of[host], actor, round_trip)
        store_bandwidth = self.store_bandwidth(actors, hosts)
        if store_bandwidth is not None:
            figures["store_bandwidth"] = store_bandwidth
        if links:
            figures["links"] = links
            figures["hop_seconds"] = median(link.hop_seconds for link in links.values())
            figures["bandwidth"] = median(link.bandwidth for link in links.values())
            figures["give_bandwidth"] = figures["bandwidth"]
        return figures

    def best(self, once: Callable[[], tuple[float, float]]) -> tuple[float, float]:
        """Return the shortest of several measurements of two times."""
        pairs = [once() for _ in range(REPETITIONS)]
        return min(one for one, _ in pairs), min(other for _, other in pairs)

    def round_trip(self, actor: Any) -> tuple[float, float]:
        """Return the seconds of sending a call, and of the round trip."""
        start = time.perf_counter()
        answer = actor.pass_on.remote(0)
        sent = time.perf_counter()
        self.ray.get(answer, timeout=DEADLINE)
        return sent - start, time.perf_counter() - start

    def chain(self, actors: Sequence[Any], size: int = 0, *, waiting: bool = True) -> float:
        """Return the seconds of calls that are sent ahead, with `waiting` each for the one before."""
        start = time.perf_counter()
        answers = [actors[0].pass_on.remote(size)]
        for actor in actors[1:]:
            answers.append(actor.pass_on.remote(size, *answers[-1:]) if waiting else actor.pass_on.remote(size))
        self.ray.get(answers[-1] if waiting else answers, timeout=DEADLINE)
        return time.perf_counter() - start

    def link(self, source: Any, target: Any, round_trip: float) -> LinkCost:
        """Measure the link from one worker to another."""
        there_and_back = [source, target] * (CHAIN_LENGTH // 2)
        small = self.best(lambda: (self.chain(there_and_back), 0.0))[0]
        hop = max(small - round_trip, 1e-5) / (CHAIN_LENGTH - 1)
        large = self.best(lambda: (self.moved(source, target), 0.0))[0]
        return LinkCost(hop, LARGE_BYTES / max(large - round_trip - hop, 1e-5))

    def store_bandwidth(self, actors: Sequence[Any], hosts: Sequence[str]) -> float | None:
        """Measure, on the host with the most workers, by how much large objects delay the call that follows them while
        all workers there make some; return None if they do not."""
        most = max(hosts, key=hosts.count)
        mine = [actor for actor, host in zip(actors, hosts, strict=True) if host == most][:MAX_STORING]
        small = self.best(lambda: (self.stored(mine, 0), 0.0))[0]
        large = self.best(lambda: (self.stored(mine, LARGE_BYTES), 0.0))[0]
        return LARGE_BYTES / (large - small) if large > small else None

    def stored(self, actors: Sequence[Any], size: int) -> float:
        """Return the seconds in which workers make an object each, and then compute."""
        start = time.perf_counter()
        made: list[Any] = []
        computed: list[Any] = []
        for actor in actors:
            made.append(actor.pass_on.remote(size))
            computed.append(actor.compute.remote(COMPUTE_SECONDS))
        self.ray.get(computed, timeout=DEADLINE)
        seconds = time.perf_counter() - start
        # Each object is complete before it is dropped: one whose owner drops it earlier may stay in Ray's store
        self.ray.wait(made, num_returns=len(made), timeout=DEADLINE, fetch_local=False)
        return seconds

    def moved(self, source: Any, target: Any) -> float:
        """Return the seconds of making a large object on one worker and reading it on another."""
        start = time.perf_counter()
        made = source.pass_on.remote(LARGE_BYTES)
        self.ray.get(target.pass_on.remote(0, made), timeout=DEADLINE)
        return time.perf_counter() - start
