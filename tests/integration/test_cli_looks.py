"""What a cluster is seen by: the cluster at a glance, groups in seconds, the live view, a measurement, a purge."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rocketlake import Consumer, FirstOffset
from rocketlake.base.errors import ConflictError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


def read(rocketlake: Typed, *words: str) -> Any:
    return json.loads(rocketlake(*words, "-o", "json"))


def queue_of(rocketlake: Typed, group: str) -> dict[str, Any]:
    queues = read(rocketlake, "group", "show", group)["queues"]
    found: list[dict[str, Any]] = [each for each in queues if each["topic"] == "Late"]
    return found[0] if found else {"consumed": 0, "lag_seconds": 0}


def test_a_lag_is_told_in_seconds_and_a_holder_by_name(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    rocketlake("topic", "create", "Late", "-q", "1")
    before = time.time()
    cluster.send("Late", [b"1", b"2", b"3"])

    async def begin() -> Consumer:
        consumer = Consumer("latecomers", "Late", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST)
        await consumer.start()
        await consumer.receive()
        await consumer.receive()  # the first one is done by that
        return consumer

    consumer = cluster.run(begin())
    try:
        while True:
            (member,) = read(rocketlake, "group", "show", "latecomers")["members"]
            found = queue_of(rocketlake, "latecomers")
            if member["in_hand"] and found["consumed"] == 1:
                break
        assert (found["lag"], found["member"]) == (2, member["client"])
        assert 0 <= found["lag_seconds"] <= time.time() - before + 1
        assert "Late broker-a/0" in member["queues"]
        assert (member["language"], member["in_hand"]) == ("PYTHON", 2)
        assert member["settings"]["PROP_CONSUME_TYPE"]
        text = rocketlake("group", "show", "latecomers")
        assert "2 messages in hand" in text
        assert "messages/s taken" in text
        assert "lag 2 messages, the first of them there for" in text
    finally:
        cluster.run(consumer.stop())
    behind = queue_of(rocketlake, "latecomers")
    while not behind["lag_seconds"]:  # a whole second has passed
        behind = queue_of(rocketlake, "latecomers")
    assert (behind["lag"], behind["member"]) == (2, None)


def test_a_new_group_that_stands_at_its_first_message_is_behind(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    rocketlake("topic", "create", "Slow", "-q", "1")
    cluster.send("Slow", [b"1", b"2"])

    async def begin() -> Consumer:
        consumer = Consumer("beginners", "Slow", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST)
        await consumer.start()
        await consumer.receive()
        return consumer

    consumer = cluster.run(begin())
    try:
        shown = read(rocketlake, "group", "show", "beginners")
        (queue,) = [each for each in shown["queues"] if each["topic"] == "Slow"]
        assert (queue["consumed"], queue["lag"]) == (0, 2)
        assert queue["member"] == shown["members"][0]["client"]
    finally:
        cluster.run(consumer.stop())


def test_a_queue_tells_the_span_it_holds(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    cluster.send("Held", [b"1", b"2"])
    queues = read(rocketlake, "topic", "show", "Held")["queues"]
    full = [each for each in queues if each["next_offset"]]
    assert sum(each["next_offset"] for each in full) == 2
    assert all(each["first_message"] <= each["last_message"] for each in full)
    assert [each for each in queues if not each["next_offset"] and each["first_message"]] == []


def test_a_purged_topic_keeps_its_settings(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    rocketlake("topic", "create", "Purged", "-q", "3")
    rocketlake("topic", "alter", "Purged", "-a", "+quota.bytes.in=1048576")
    cluster.send("Purged", [b"1", b"2"])
    assert "would delete 2 messages of topic Purged" in rocketlake("topic", "purge", "Purged", "--dry-run")
    assert read(rocketlake, "topic", "show", "Purged")["messages"] == 2
    assert rocketlake("topic", "purge", "Purged", "--yes") == "2 messages of topic Purged deleted from broker-a\n"
    shown = read(rocketlake, "topic", "show", "Purged")
    assert (shown["messages"], len(shown["queues"])) == (0, 3)
    assert shown["settings"]["broker-a"]["attributes"] == {"quota.bytes.in": "1048576"}
    assert "quota.bytes.in=1048576" in rocketlake("topic", "show", "Purged")
    cluster.send("Purged", [b"3"])
    assert rocketlake("consume", "Purged", "--from", "earliest", "-e", "--bodies") == "3\n"


def test_the_cluster_at_a_glance(rocketlake: Typed) -> None:
    shown = read(rocketlake, "cluster", "show")
    assert (shown["brokers"], shown["masters"], shown["troubles"]) == (1, 1, [])
    assert 0 < shown["disk_used_ratio"] <= 1
    assert "1 master" in rocketlake("cluster", "show")


@pytest.mark.parametrize(("by", "name"), [("group", "viewers"), ("topic", "Viewed"), ("broker", "broker-a")])
def test_one_look_of_the_live_view(cluster: EmbeddedCluster, rocketlake: Typed, by: str, name: str) -> None:
    cluster.send("Viewed", [b"1"])
    rocketlake("consume", "Viewed", "--group", "viewers", "--count", "1")
    rows = read(rocketlake, "top", "--once", "--by", by, "--interval", "0.1")
    assert name in [row[by] for row in rows]
    assert name in rocketlake("top", "--once", "--by", by, "--interval", "0.1")


def test_a_measurement_leaves_nothing(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    sent, got = read(rocketlake, "bench", "--messages", "50", "--size", "100")
    assert [(each["phase"], each["messages"]) for each in (sent, got)] == [("send", 50), ("read", 50)]
    assert 0 < sent["p50_ms"] <= sent["p99_ms"] <= sent["max_ms"]
    assert sent["messages_per_second"] > 0
    assert "bench" not in rocketlake("topic", "list")
    cluster.send("Used", [b"1"])
    with pytest.raises(ConflictError, match="holds 1 message"):
        rocketlake("bench", "--topic", "Used")
