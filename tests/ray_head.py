"""A Ray of a test module's own, which a process starts that has nothing else to do: `python tests/ray_head.py OPTIONS`
starts a head node with what the JSON says, prints its address, and ends it when its input ends.

Ray runs Python in what it forks before that becomes one of its processes. Where threads of JAX, torch and earlier Rays
are, as in the process that runs tests, one of these may hold a lock at that moment, for which the fork waits for ever.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

OBJECT_STORE_MEMORY = 100 * 1024 * 1024
"""Bytes of the object store, unless a module asks for another size."""


@contextlib.contextmanager
def ray_of_its_own(folder: Path, **options: Any) -> Generator[Any]:
    """Yield `ray`, connected to a head node with these options, from `folder`: Ray puts the folder where it is started
    on the path of every worker, and the repository's root does not belong there."""
    import ray

    given = {"num_cpus": 4, "object_store_memory": OBJECT_STORE_MEMORY, "include_dashboard": False, **options}
    command = [sys.executable, __file__, json.dumps(given)]
    with (
        contextlib.chdir(folder),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as head,
    ):
        assert head.stdout is not None
        address = head.stdout.readline().strip()
        assert address, "Ray did not start: what it wrote is above"
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        try:
            yield ray
        finally:
            ray.shutdown()


def main() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=json.loads(sys.argv[1]))
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
