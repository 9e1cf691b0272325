"""Topics on the command line: a command that would change or lose something says so first."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake import Consumer, FirstOffset, Message, NoRoute, Producer, PullConsumer, PushConsumer, StoredMessage
from rocketlake.admin.sync import Admin
from rocketlake.base.errors import NotThereError, RocketLakeError, UsageError
from rocketlake.cli.tree import app
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed, second_broker


def fill(cluster: EmbeddedCluster, topic: str, queues: int) -> None:
    for queue in range(queues):
        cluster.send(topic, [b"%d" % queue], queue=queue)


def test_create_never_changes_a_topic_that_exists(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "kept", "-q", "4", "--perm", "r")
    with pytest.raises(RocketLakeError, match="'kept' exists: 4 queues, r on broker-a") as refused:
        rocketlake("topic", "create", "kept", "-q", "2")
    assert "topic alter kept" in refused.value.hint
    with pytest.raises(RocketLakeError, match="exists"):
        rocketlake("topic", "create", "kept")
    left = rocketlake("topic", "create", "kept", "-q", "2", "--if-not-exists")
    assert left == "topic kept exists, nothing changed: 4 queues, r on broker-a\n"
    assert "4 queues, r on broker-a" in rocketlake("topic", "show", "kept")
    assert "new: 3 queues on broker-a" in rocketlake("topic", "create", "new", "-q", "3", "--if-not-exists")


def test_a_send_to_a_topic_without_write_permission_says_so(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "closed", "--perm", "r")
    with pytest.raises(NoRoute, match="'closed' takes no messages: it has no write permission") as refused:
        rocketlake("produce", "closed", "x")
    assert "topic alter closed --perm rw" in refused.value.hint


def test_alter_says_what_it_changes_and_keeps_the_rest(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "grown", "-q", "2", "--perm", "r")
    said = rocketlake("topic", "alter", "grown", "--queues", "3")
    assert said == "topic grown on broker-a: 2 queues, r -> 3 queues, r\n"
    assert "nothing to change" in rocketlake("topic", "alter", "grown", "--queues", "3")
    assert "3 queues, r -> 3 queues, rw" in rocketlake("topic", "alter", "grown", "--perm", "rw")
    with pytest.raises(RocketLakeError, match="nothing to change was given"):
        rocketlake("topic", "alter", "grown")
    with pytest.raises(RocketLakeError, match="no topic 'nowhere'"):
        rocketlake("topic", "alter", "nowhere", "-q", "3")


def test_alter_sets_a_quota_and_takes_it_away(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "narrow", "-q", "2")
    said = rocketlake("topic", "alter", "narrow", "-a", "+quota.bytes.in=2000", "-a", "+quota.requests.out=9")
    assert "2 queues, rw -> 2 queues, rw +quota.bytes.in=2000,+quota.requests.out=9" in said
    rocketlake("topic", "alter", "narrow", "-q", "3")
    topics = cluster.standalone.broker.topics
    kept = topics.get("narrow")
    assert kept is not None
    assert kept.attributes == {"quota.bytes.in": "2000", "quota.requests.out": "9"}
    rocketlake("topic", "alter", "narrow", "-a", "-quota.bytes.in", "-a", "-quota.requests.out")
    assert not topics.get("narrow").attributes  # type: ignore[union-attr]


def test_a_topic_is_made_a_table_and_none_again(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    topics = cluster.standalone.broker.topics
    rocketlake("topic", "create", "tabled", "-q", "2", "--lake", "delta")
    assert topics.get("tabled").attributes == {"lake.format": "delta"}  # type: ignore[union-attr]
    assert "lake.format=delta" in rocketlake("topic", "show", "tabled")
    said = rocketlake("topic", "alter", "tabled", "--lake", "iceberg", "-a", "+lake.body=json")
    assert "2 queues, rw -> 2 queues, rw +lake.body=json,+lake.format=iceberg" in said
    with pytest.raises(UsageError, match="--lake 'orc' is not known"):
        rocketlake("topic", "alter", "tabled", "--lake", "orc")
    rocketlake("topic", "alter", "tabled", "--lake", "off", "-a", "-lake.body")
    assert not topics.get("tabled").attributes  # type: ignore[union-attr]
    rocketlake("topic", "create", "untabled", "--lake", "off")
    assert not topics.get("untabled").attributes  # type: ignore[union-attr]


def test_a_topic_is_moved_by_altering_it_on_one_broker(
    cluster: EmbeddedCluster, rocketlake: Typed, tmp_path: Path
) -> None:
    with second_broker(cluster, tmp_path):
        rocketlake("topic", "create", "moved", "-q", "2")
        said = rocketlake("topic", "alter", "moved", "--broker", "broker-a", "--perm", "r")
        assert said == "topic moved on broker-a: 2 queues, rw -> 2 queues, r\n"
        settings = json.loads(rocketlake("topic", "show", "moved", "-o", "json"))["settings"]
        assert {broker: each["perm"] for broker, each in settings.items()} == {"broker-a": "r", "broker-b": "rw"}
        for _ in range(4):
            assert "broker broker-b" in rocketlake("produce", "moved", "x")
        with pytest.raises(NotThereError, match="not on broker broker-z"):
            rocketlake("topic", "alter", "moved", "--broker", "broker-z", "--perm", "r")
        with pytest.raises(UsageError, match="every broker"):
            rocketlake("topic", "alter", "moved", "--broker", "broker-a", "-q", "4", "--drain")
        rocketlake("topic", "delete", "moved", "--yes")


def test_alter_puts_no_message_out_of_reach_without_force(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "shrunk", "-q", "4")
    fill(cluster, "shrunk", 4)
    with pytest.raises(RocketLakeError, match=r"broker-a/2, broker-a/3 .*2 messages out of reach") as refused:
        rocketlake("topic", "alter", "shrunk", "-q", "2")
    assert "--write-queues" in refused.value.hint
    assert len(rocketlake("consume", "shrunk", "--from", "earliest", "-c", "4").splitlines()) == 4
    assert "-> 4 queues to read and 2 to write" in rocketlake("topic", "alter", "shrunk", "--write-queues", "2")
    assert "-> 2 queues, rw" in rocketlake("topic", "alter", "shrunk", "--read-queues", "2", "--force")
    with pytest.raises(RocketLakeError, match="written to 8 queues and read from 2 only"):
        rocketlake("topic", "alter", "shrunk", "--write-queues", "8")
    rocketlake("topic", "alter", "shrunk", "-q", "4")
    with pytest.raises(RocketLakeError, match=r"not be read any more on broker-a: 4 messages out of reach") as refused:
        rocketlake("topic", "alter", "shrunk", "--perm", "w")
    assert "--force" in refused.value.hint
    assert "-> 4 queues, w" in rocketlake("topic", "alter", "shrunk", "--perm", "w", "--force")
    rocketlake("topic", "alter", "shrunk", "--perm", "rw")
    assert len(rocketlake("consume", "shrunk", "--from", "earliest", "-c", "4").splitlines()) == 4


def test_a_tail_reads_queues_that_are_added_while_it_runs(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "growing", "-q", "1")
    command = [sys.executable, "-m", "rocketlake", "consume", "growing", "--bodies", "-c", "2", "-n", cluster.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stderr.readline().startswith(b"reading growing: 1 queue;")
        rocketlake("topic", "alter", "growing", "-q", "2")
        cluster.send("growing", [b"of the new queue"], queue=1)
        cluster.send("growing", [b"of the old queue"], queue=0)
        lines, _errors = process.communicate(timeout=60)
    assert set(lines.splitlines()) == {b"of the new queue", b"of the old queue"}


def test_a_topic_that_is_read_is_deleted_with_force_only(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "read", "-q", "1")
    fill(cluster, "read", 1)
    consumer = Consumer("readers", "read", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST)
    cluster.run(consumer.start())
    try:
        cluster.run(consumer.receive())
        for words in (("-y",), ()):
            with pytest.raises(RocketLakeError, match=r"being read by readers \(1 member\)") as refused:
                rocketlake("topic", "delete", "read", *words)
            assert "--force" in refused.value.hint
        assert "read" in rocketlake("topic", "list").splitlines()
        assert "deleted from broker-a" in rocketlake("topic", "delete", "read", "-y", "--force")
    finally:
        cluster.run(consumer.stop())


def test_a_topic_is_kept_for_the_one_member_that_reads_it(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    for topic in ("shared", "alone"):
        rocketlake("topic", "create", topic, "-q", "1")
    consumers = [PullConsumer("unequal", namesrv=cluster.namesrv) for _ in range(2)]
    try:
        for consumer, topics in zip(consumers, (("shared", "alone"), ("shared",)), strict=True):
            for topic in topics:
                consumer.subscribe(topic)
            cluster.run(consumer.start())  # its heartbeat says what the whole group reads
        with pytest.raises(RocketLakeError, match=r"being read by unequal \(1 member\)"):
            rocketlake("topic", "delete", "alone", "-y")
        with pytest.raises(RocketLakeError, match=r"being read by unequal \(2 members\)"):
            rocketlake("topic", "delete", "shared", "-y")
        cluster.run(consumers[0].stop())
        assert "deleted from broker-a" in rocketlake("topic", "delete", "alone", "-y")
    finally:
        for consumer in consumers:
            cluster.run(consumer.stop())


def test_json_for_programs(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "json", "-q", "2")

    async def send() -> None:
        async with Producer("senders", namesrv=cluster.namesrv) as producer:
            queue = (await producer.queues("json"))[0]
            await producer.send_batch([Message("json", b"\xff", tags="T", properties={"a": "b"})] * 1500, queue=queue)

    cluster.run(send())
    assert "json" in json.loads(rocketlake("topic", "list", "-o", "json"))
    shown = json.loads(rocketlake("topic", "show", "json", "-o", "json"))
    assert shown["messages"] == 1500
    assert [queue["next_offset"] for queue in shown["queues"]] == [1500, 0]
    assert shown["queues"][0]["last_message"].startswith("20")
    assert shown["queues"][1]["last_message"] is None
    (line,) = rocketlake("consume", "json", "--from", "earliest", "-c", "1", "-o", "json").splitlines()
    message = json.loads(line)
    assert (message["body_base64"], message["tag"], message["properties"]) == ("/w==", "T", {"a": "b"})
    assert "1500" in rocketlake("topic", "show", "json")
    assert "1,500" not in rocketlake("topic", "show", "json")
    assert "[a=b]" in rocketlake("consume", "json", "--from", "earliest", "-c", "1")


def test_a_topic_on_one_broker_of_two_is_told_and_spread(
    rocketlake: Typed, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    rocketlake("topic", "create", "lopsided", "-q", "3")
    rocketlake("topic", "alter", "lopsided", "--attribute", "+message.type=LITE")
    with second_broker(cluster, tmp_path):
        while "broker-b has no queue of this topic" not in rocketlake("topic", "show", "lopsided"):
            time.sleep(0.05)
        assert rocketlake("topic", "spread", "lopsided") == "topic lopsided is on broker-b, too: 3 queues, rw\n"
        assert "3 queues, rw on broker-a, broker-b" in rocketlake("topic", "show", "lopsided")
        assert "is on every broker" in rocketlake("topic", "spread", "lopsided")
        with Admin(namesrv=cluster.namesrv) as admin:
            settings = admin.topic_settings()["lopsided"]
        assert [config.attributes for config in settings.values()] == [{"message.type": "LITE"}] * 2


def test_more_queues_move_keys(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "moved", "-q", "2")
    for words, told in ((("-q", "3"), True), (("--read-queues", "4"), False)):
        done = CliRunner().invoke(app, ["topic", "alter", "moved", *words])
        assert ("equal keys (send(..., key=...)) go to other queues" in done.stderr) is told


@pytest.mark.long
def test_a_drain_ends_when_producers_have_stopped_and_groups_have_read_all(
    rocketlake: Typed, cluster: EmbeddedCluster
) -> None:
    rocketlake("topic", "create", "keyed", "-q", "2")
    seen: list[int] = []

    async def book(messages: list[StoredMessage]) -> None:
        seen.extend(int(message.body) for message in messages)

    async def work() -> tuple[int, str, int]:
        sent = 0
        consumer = PushConsumer("ordered", namesrv=cluster.namesrv, listener=book, from_where="first", orderly=True)
        consumer.subscribe("keyed")
        async with Producer("shop", namesrv=cluster.namesrv) as producer, consumer:
            command = [sys.executable, "-m", "rocketlake", "topic", "alter", "keyed", "-q", "8", "--drain"]
            drain = await asyncio.create_subprocess_exec(*command, "-n", cluster.namesrv, stdout=subprocess.PIPE)
            with pytest.raises(NoRoute, match="no write permission"):
                while True:
                    await producer.send(Message("keyed", b"%d" % sent), key="k")
                    sent += 1
                    await asyncio.sleep(0.01)
            said, _ = await drain.communicate()
            drained = len(seen)
        return sent, said.decode(), drained

    sent, said, drained = cluster.run(work(), seconds=300)
    assert said == "topic keyed on broker-a: 2 queues, rw -> 8 queues, rw\n"
    assert drained == sent and seen == list(range(sent))
