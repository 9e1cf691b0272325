"""Whole groups in virtual time: controllers, register, replicas and clients under faults, one run for each seed.

Many more: `make replicas-search SEEDS=10000`. One, told: `python -m rocketlake.testing.replicas.simulation SEED`.
"""

from __future__ import annotations

import pytest

from rocketlake.testing.replicas.rules import BROKEN, OURS, PUT_BACK, STUCK
from rocketlake.testing.replicas.simulation import run_group
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds("groups", short=40, whole=120))
def test_every_promise_holds(seed: int) -> None:
    outcome = run_group(seed)
    assert not outcome.problem, f"seed {seed}: {outcome.problem}\n" + "\n".join(outcome.events)
    assert outcome.acked > 100, f"seed {seed}: nothing was acknowledged, so nothing was tested"


@pytest.mark.parametrize(
    "name",
    [
        "shrinks before it is recorded, two copies",
        "a joiner counts when it is recorded",
        "any two copies are enough",
        "swaps do not compare",
        "a proposal without an answer is dropped",
    ],
)
def test_a_broken_rule_is_caught(name: str) -> None:
    assert any(run_group(seed, BROKEN[name]).problem for seed in range(60))


@pytest.mark.parametrize("seed", seeds("no lives told", short=3, whole=10))
def test_brokers_that_do_not_tell_their_lives_lose_nothing_either(seed: int) -> None:
    """As under Apache's controller: a master that was started again goes on in its epoch."""
    outcome = run_group(seed, OURS["two copies, brokers do not tell their lives"])
    assert not outcome.problem, f"seed {seed}: {outcome.problem}\n" + "\n".join(outcome.events)


@pytest.mark.parametrize("seed", seeds("put back", short=4, whole=15))
def test_an_older_register_that_is_put_back_costs_no_message(seed: int) -> None:
    outcome = run_group(seed, PUT_BACK["ours"])
    assert not outcome.problem, f"seed {seed}: {outcome.problem}\n" + "\n".join(outcome.events)


_ALONE = "put back, one comes first"


@pytest.mark.parametrize("seed", range(2003, 2012))
def test_what_one_member_takes_alone_on_an_older_register_is_not_chosen(seed: int) -> None:
    outcome = run_group(seed, PUT_BACK["ours"], _ALONE)
    assert not outcome.problem, f"seed {seed}: {outcome.problem}\n" + "\n".join(outcome.events)


@pytest.mark.parametrize(
    "name",
    ["the highest number wins, also one that was given again", "epochs are compared by their numbers alone"],
)
def test_a_broken_rule_of_put_back_registers_is_caught(name: str) -> None:
    assert any(run_group(seed, PUT_BACK[name], _ALONE).problem for seed in range(2003, 2033))


def test_it_does_when_members_do_not_tell_what_they_know() -> None:
    assert any(run_group(seed, PUT_BACK["members do not tell what they know"]).problem for seed in range(20, 80))


@pytest.mark.parametrize("name", STUCK)
def test_a_rule_that_stands_still_is_caught(name: str) -> None:
    rules, fault = STUCK[name]
    assert any(run_group(seed, rules, fault).problem for seed in range(30))
    assert not any(run_group(seed, OURS["two copies"], fault).problem for seed in range(3))


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        ("kill master", 1.0),
        ("power of master", 1.5),
        ("pause master", 1.5),
        ("kill", 1.5),
        ("cut master from slaves", 3.0),
    ],
)
def test_sends_go_on_soon_after_one_fault(fault: str, seconds: float) -> None:
    gaps = [run_group(seed, only=fault).longest_gap for seed in range(2)]
    assert max(gaps) < seconds


def test_one_seed_has_one_history() -> None:
    assert run_group(3).events == run_group(3).events
