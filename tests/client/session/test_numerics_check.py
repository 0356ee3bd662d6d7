"""A session whose workers may give different bits is refused, or says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.session.numerics_check import check_numerics
from raygrad.errors import NumericsError, NumericsWarning
from raygrad.scheduler.model.plan import Cluster, WorkerSpec


def cluster(*classes: str) -> Cluster:
    return Cluster(tuple(WorkerSpec(f"worker {n}", numerics=(("cpu", one),)) for n, one in enumerate(classes)))


def test_workers_of_one_class_are_taken() -> None:
    check_numerics(cluster("a", "a"), deterministic=True)


def test_workers_of_several_are_refused_with_what_they_are_and_the_way_round() -> None:
    with pytest.raises(NumericsError, match=r"worker 0: cpu, a; worker 1: cpu, b.*deterministic=False"):
        check_numerics(cluster("a", "b"), deterministic=True)


def test_who_takes_them_is_told() -> None:
    with pytest.warns(NumericsWarning, match="may depend on where a plan runs what"):
        check_numerics(cluster("a", "b"), deterministic=False)


def test_the_option_is_true_or_false() -> None:
    word: Any = "yes"
    with pytest.raises(TypeError, match=r"Session\(deterministic=...\) takes True or False, got 'yes'"):
        rg.Session(deterministic=word)


SCRIPT = """
import warnings
import raygrad as rg
from ray.cluster_utils import Cluster

if __name__ == "__main__":
    node = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node, env_vars={"OPENBLAS_CORETYPE": "Nehalem"})
        address = f"ray:{cluster.address}"
        try:
            rg.Session(address, workers=2)
        except rg.errors.NumericsError as error:
            print("refused", "for Nehalem" in str(error))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with rg.Session(address, workers=2, deterministic=False) as session:
                with session.deferred():
                    with rg.place(worker=1):
                        y = rg.ones(2) * 2.0
                    with rg.place(worker=0):
                        z = y * 2.0
                    told = session.explain(z).summary()
                print(z.tolist(), "may give different bits" in " ".join(told))
        print({one.category.__name__ for one in caught if "bits" in str(one.message)})
    finally:
        cluster.shutdown()
"""


@pytest.mark.ray
@pytest.mark.timeout(180)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs the names of its cores")
def test_nodes_of_two_kinds_of_core_are_told_apart(tmp_path: Path) -> None:
    """In a process of its own, which joins a cluster that it did not start."""
    pytest.importorskip("ray")
    blas: Any = np.show_config(mode="dicts")
    if "openblas" not in str(blas["Build Dependencies"]["blas"]["name"]):
        pytest.skip("NumPy has no OpenBLAS here")
    script = tmp_path / "two_cores.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith(("refused", "[", "{"))]
    assert lines == ["refused True", "[4.0, 4.0] True", "{'NumericsWarning'}"], done.stdout + done.stderr[-2000:]
