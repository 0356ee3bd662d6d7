from __future__ import annotations

from raygrad.scheduler.placing.draws import SeededRandom


def test_draws_are_those_of_the_seed_and_of_splitmix64():
    draws = SeededRandom(1234567)
    assert [int(draws.random() * 2**53) for _ in range(3)] == [
        one >> 11 for one in (6457827717110365317, 3203168211198807973, 9817491932198370423)
    ]


def test_draws_are_spread_evenly():
    draws = SeededRandom(0)
    many = [draws.random() for _ in range(10_000)]
    assert 0 <= min(many) < 0.01
    assert 0.99 < max(many) < 1
    assert abs(sum(many) / len(many) - 0.5) < 0.02
    assert {draws.one_of("abc") for _ in range(50)} == set("abc")
