from __future__ import annotations

import threading
from collections.abc import Generator

import numpy as np
import pytest
from threadpoolctl import LibController, ThreadpoolController

from raygrad.workers.process.blas_threads import limit_blas, limit_in_force, release_blas


@pytest.fixture
def library() -> Generator[LibController]:
    np.dot(np.ones((2, 2)), np.ones((2, 2)))  # NumPy's BLAS is loaded
    found = next(one for one in ThreadpoolController().lib_controllers if one.user_api == "blas")
    before = found.get_num_threads()
    found.set_num_threads(4)
    yield found
    found.set_num_threads(before or 1)


def test_the_limit_holds_until_it_is_released(library: LibController):
    limit_blas(1)
    assert library.get_num_threads() == 1
    release_blas(1)
    assert library.get_num_threads() == 4


def test_of_two_sessions_the_smaller_limit_counts_and_the_last_restores(library: LibController):
    limit_blas(2)
    limit_blas(1)
    assert library.get_num_threads() == 1
    release_blas(1)
    assert library.get_num_threads() == 2
    release_blas(2)
    assert library.get_num_threads() == 4


def test_a_session_with_a_larger_limit_does_not_raise_that_of_another(library: LibController):
    limit_blas(1)
    limit_blas(2)
    assert library.get_num_threads() == 1
    release_blas(1)
    assert library.get_num_threads() == 2
    release_blas(2)
    assert library.get_num_threads() == 4


def test_another_thread_may_release_the_limit(library: LibController):
    limit_blas(1)
    releasing = threading.Thread(target=release_blas, args=(1,))
    releasing.start()
    releasing.join()
    assert library.get_num_threads() == 4


def test_releasing_what_is_not_in_force_is_an_error():
    with pytest.raises(ValueError, match="not in list"):
        release_blas(99)


def test_the_limit_in_force_is_told_to_libraries_with_threads_of_their_own():
    assert limit_in_force() is None
    limit_blas(3)
    limit_blas(2)
    assert limit_in_force() == 2
    release_blas(2)
    assert limit_in_force() == 3
    release_blas(3)
    assert limit_in_force() is None
