"""Apache's Java push consumer in POP mode on our broker: once each, again if not acknowledged."""

from __future__ import annotations

import pytest

from interop.apache import run_driver

pytestmark = pytest.mark.interop

PEER = "server550"
INVISIBLE_MS = 60_000


def produce(namesrv: str, topic: str, count: int) -> None:
    sent = run_driver("Produce", namesrv, topic, "orderly", count, 100, "A,B", peer=PEER)
    assert sent == {"sent": count, "failed": 0}


@pytest.mark.smoke
def test_a_pop_consumer_gets_each_message_once(our_namesrv: str) -> None:
    count = 2000
    produce(our_namesrv, "PopOnce", count)
    got = run_driver(
        "PopConsume", our_namesrv, "PopOnce", "pop_once", "*", "concurrent", count, 90, 0, INVISIBLE_MS, peer=PEER
    )
    assert (got["distinct"], got["duplicates"], got["sum"]) == (count, 0, count * (count - 1) // 2)
    assert (got["pops"], got["tries"]) == (1, 0)


def test_what_a_dead_consumer_held_comes_again(our_namesrv: str) -> None:
    produce(our_namesrv, "PopHeld", 20)
    held = run_driver(
        "PopConsume", our_namesrv, "PopHeld", "pop_held", "*", "hold", 20, 60, 0, 5000, peer=PEER, timeout=120
    )
    assert held["distinct"] == 20
    got = run_driver("PopConsume", our_namesrv, "PopHeld", "pop_held", "*", "concurrent", 20, 60, 0, 5000, peer=PEER)
    assert (got["distinct"], got["duplicates"], got["tries"]) == (20, 0, 20), "each counts one try"


def test_refused_messages_are_tried_again_and_tags_choose(our_namesrv: str) -> None:
    produce(our_namesrv, "PopRefused", 100)
    got = run_driver(
        "PopConsume", our_namesrv, "PopRefused", "pop_refused", "A", "concurrent", 50, 90, 20, INVISIBLE_MS, peer=PEER
    )
    assert (got["distinct"], got["duplicates"], got["sum"]) == (50, 0, sum(range(0, 100, 2)))
    assert (got["retried"], got["tries"]) == (5, 5)
