"""No sequence of frames, however changed, harms a server or the other sessions on it; see `fuzzing`."""

from __future__ import annotations

import os

from ..fuzzing import run

FRAMES = int(os.environ.get("RAYGRAD_FUZZ_FRAMES", "3000"))


def test_mutated_frames_and_sequences_do_no_harm() -> None:
    shown = run(FRAMES, seed=0)
    assert shown["grown"] < 64 << 20
