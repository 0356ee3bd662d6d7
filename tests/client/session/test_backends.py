"""Addresses lead to executors; what is not installed is named."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from raygrad.client.session.backends import open_workers


def test_local_is_this_process() -> None:
    workers = open_workers("local", workers=3, strict=False, blas_threads=1, options={})
    try:
        assert len(workers.cluster.workers) == 3
        assert not workers.reports_unasked
    finally:
        workers.close()


def test_strict_is_for_local_sessions() -> None:
    with pytest.raises(ValueError, match="strict=True is for local sessions"):
        open_workers("ray", workers=1, strict=True, blas_threads=1, options={})


def test_a_missing_ray_is_a_clear_error_that_names_the_extra(tmp_path: Path) -> None:
    script = tmp_path / "no_ray.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            sys.modules["ray"] = None
            import raygrad as rg
            try:
                rg.Session("ray")
            except rg.errors.BackendUnavailable as error:
                assert isinstance(error, ImportError)
                print(error)
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60
    )
    assert "raygrad[ray]" in ran.stdout
