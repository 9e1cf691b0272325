"""Apache's Java clients, 5.3.3 and 4.9.8, on our cluster: 10,000 messages, by tag, both orders, retries."""

from __future__ import annotations

import pytest

from interop.apache import run_driver

pytestmark = pytest.mark.interop

COUNT = 10_000
SUM_OF_ALL = COUNT * (COUNT - 1) // 2
TAGS = ("A", "B", "C", "D")


def sum_of_tags(*tags: str) -> int:
    return sum(n for n in range(COUNT) if TAGS[n % len(TAGS)] in tags)


@pytest.fixture(scope="module")
def ten_thousand(our_namesrv: str) -> str:
    """A topic with 10,000 messages, sent synchronously in queue order by the 5.3.3 client."""
    sent = run_driver("Produce", our_namesrv, "TenThousand", "orderly", COUNT, 200, ",".join(TAGS))
    assert sent == {"sent": COUNT, "failed": 0}
    return "TenThousand"


def test_concurrent_consumer_by_tag_with_retries(our_namesrv: str, ten_thousand: str) -> None:
    got = run_driver("Consume", our_namesrv, ten_thousand, "by_tag", "A || C", "concurrent", COUNT // 2, 90, 500)
    assert got["distinct"] == COUNT // 2
    assert got["sum"] == sum_of_tags("A", "C")
    assert got["wrongtag"] == 0
    assert got["retried"] == 20, "each refused message came again"


def test_orderly_consumer_sees_every_queue_in_order(our_namesrv: str, ten_thousand: str) -> None:
    got = run_driver("Consume", our_namesrv, ten_thousand, "in_order", "*", "orderly", COUNT, 120, 1000)
    assert (got["distinct"], got["sum"], got["disorder"]) == (COUNT, SUM_OF_ALL, 0)
    assert got["retried"] == 10


@pytest.mark.parametrize("serialize_type", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("mode", ["async", "batch", "oneway"])
def test_every_way_of_sending_in_both_header_codecs(our_namesrv: str, mode: str, serialize_type: str) -> None:
    topic = f"Ways_{mode}_{serialize_type}"
    # Sent in order once: the topic exists before one-way messages, which nobody would retry, go to it.
    run_driver("Produce", our_namesrv, topic, "sync", 1, 10, "A", serialize_type=serialize_type)
    sent = run_driver("Produce", our_namesrv, topic, mode, 2000, 300, "A,B", serialize_type=serialize_type)
    assert sent == {"sent": 2000, "failed": 0}
    got = run_driver(
        "Consume", our_namesrv, topic, f"g_{topic}", "*", "concurrent", 2000, 60, 0, serialize_type=serialize_type
    )
    assert (got["distinct"], got["duplicates"]) == (2000, 1)


@pytest.mark.smoke
def test_compressed_bodies_come_back_whole(our_namesrv: str) -> None:
    assert run_driver("Produce", our_namesrv, "Large", "sync", 50, 20_000, "A") == {"sent": 50, "failed": 0}
    got = run_driver("Consume", our_namesrv, "Large", "large", "*", "concurrent", 50, 40, 0)
    assert (got["distinct"], got["sum"]) == (50, 50 * 49 // 2)


def test_the_old_client_sends_and_consumes_ten_thousand(our_namesrv: str) -> None:
    sent = run_driver("Produce", our_namesrv, "Old", "sync", COUNT, 200, ",".join(TAGS), peer="client49")
    assert sent == {"sent": COUNT, "failed": 0}
    got = run_driver("Consume", our_namesrv, "Old", "old", "B", "concurrent", COUNT // 4, 90, 250, peer="client49")
    assert (got["distinct"], got["sum"], got["wrongtag"]) == (COUNT // 4, sum_of_tags("B"), 0)
    ordered = run_driver("Consume", our_namesrv, "Old", "old2", "*", "orderly", COUNT, 120, 1000, peer="client49")
    assert (ordered["distinct"], ordered["disorder"]) == (COUNT, 0)
