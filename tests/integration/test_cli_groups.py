"""Groups on the command line: where they go on, and members that want different things."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rocketlake import Consumer, ConsumerConfig, FirstOffset, PullConsumer, PushConsumer, SimpleConsumer, StoredMessage
from rocketlake.admin.group_reset import Target
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


def read(cluster: EmbeddedCluster, group: str, topic: str, count: int) -> list[bytes]:
    async def work() -> list[bytes]:
        async with Consumer(group, topic, namesrv=cluster.namesrv, from_where=FirstOffset.FIRST) as consumer:
            bodies = [(await consumer.receive()).body for _ in range(count)]
        return bodies

    return cluster.run(work())


def consumed(rocketlake: Typed, group: str) -> list[int]:
    queues = json.loads(rocketlake("group", "show", group, "-o", "json"))["queues"]
    return [queue["consumed"] for queue in queues if not queue["topic"].startswith("%")]


def test_a_group_is_set_back_after_old_and_new_were_shown(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "work", "-q", "1")
    cluster.send("work", [b"%d" % n for n in range(10)], queue=0)
    read(cluster, "workers", "work", 10)
    dry = rocketlake("group", "reset", "workers", "--topic", "work", "--to", "earliest", "--dry-run")
    assert (
        "would set group workers in topic work (10 messages will be read again.)\ndry run: nothing was changed" in dry
    )
    assert consumed(rocketlake, "workers") == [10]
    asked = rocketlake("group", "reset", "workers", "--topic", "work", "--to", "-3", given="y\n")
    assert "set group workers in topic work? 3 messages will be read again" in asked
    assert asked.splitlines()[1].split() == ["broker-a", "0", "10", "7", "-3"]
    assert consumed(rocketlake, "workers") == [7]
    assert read(cluster, "workers", "work", 3) == [b"7", b"8", b"9"]
    assert "already" in rocketlake("group", "reset", "workers", "--topic", "work", "--to", "latest", "-y")
    rocketlake("group", "reset", "workers", "--topic", "work", "--to", "4", "-y", "--queue", "broker-a/0")
    assert "6 messages will be passed over" in rocketlake(
        "group", "reset", "workers", "--topic", "work", "--to", "latest", "-y"
    )


def test_a_no_leaves_the_group_where_it_is(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "left", "-q", "1")
    cluster.send("left", [b"1", b"2"], queue=0)
    read(cluster, "leavers", "left", 2)
    with pytest.raises(AssertionError, match="nothing was changed"):
        rocketlake("group", "reset", "leavers", "--topic", "left", "--to", "earliest", given="n\n")
    assert consumed(rocketlake, "leavers") == [2]


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C until the process has ended: CPython overlooks one that comes between its last look and its read."""
    for _ in range(12):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=5)
    raise AssertionError("Ctrl-C does not end the command")


def test_ctrl_c_at_the_question_ends_the_command(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "asked", "-q", "1")
    cluster.send("asked", [b"1"], queue=0)
    read(cluster, "askers", "asked", 1)
    words = ("group", "reset", "askers", "--topic", "asked", "--to", "earliest", "-n", cluster.namesrv)
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-m", "rocketlake", *words]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        try:
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(keyboard, 4096)
            assert interrupted(process) == 1
        finally:
            process.kill()
            os.close(keyboard)
            os.close(terminal)
    assert consumed(rocketlake, "askers") == [1]


def test_a_question_that_nobody_can_answer_names_the_option(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "silent", "-q", "1")
    with pytest.raises(UsageError, match="nobody can answer") as refused:
        rocketlake("topic", "delete", "silent")
    assert "--yes" in refused.value.hint
    assert "silent" in rocketlake("topic", "list").splitlines()


def test_a_time_brings_back_what_was_stored_since_then(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "timed", "-q", "1")
    cluster.send("timed", [b"1", b"2", b"3"], queue=0)
    read(cluster, "timers", "timed", 3)
    hour_ago = str(int(time.time() * 1000) - 3_600_000)
    rocketlake("group", "reset", "timers", "--topic", "timed", "--to", hour_ago, "-y")
    assert consumed(rocketlake, "timers") == [0]


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_that_a_table_shows_is_the_time_that_to_takes(
    new_york: None, rocketlake: Typed, cluster: EmbeddedCluster
) -> None:
    rocketlake("topic", "create", "zoned", "-q", "2")
    for queue in (0, 1):
        for body in (b"1", b"2", b"3"):
            cluster.send("zoned", [body], queue=queue)
            sent_ms = time.time_ns() // 1_000_000
            while time.time_ns() // 1_000_000 == sent_ms:
                pass
    read(cluster, "zoners", "zoned", 6)
    shown = " ".join(rocketlake("topic", "show", "zoned").splitlines()[2].split()[-2:])
    assert shown[-6:] in ("-05:00", "-04:00")
    reset = ("group", "reset", "zoners", "--topic", "zoned", "-y", "--to")
    said = rocketlake(*reset, shown)
    assert said.splitlines()[0] == f"to the first message stored at or after {shown}"
    assert consumed(rocketlake, "zoners") == [3, 2]
    assert "1 message will be passed over" in rocketlake(*reset, "0s")
    assert consumed(rocketlake, "zoners") == [3, 3]
    assert "6 messages will be read again" in rocketlake(*reset, "-1h")
    assert consumed(rocketlake, "zoners") == [0, 0]


def test_a_time_behind_the_newest_message_moves_nothing(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "newest", "-q", "2")
    for queue in (0, 1):
        cluster.send("newest", [b"1", b"2"], queue=queue)
    read(cluster, "newcomers", "newest", 4)
    behind = str(int(time.time() * 1000) + 1)
    said = rocketlake("group", "reset", "newcomers", "--topic", "newest", "--to", behind, "-y")
    assert "nothing to do" in said
    assert consumed(rocketlake, "newcomers") == [2, 2]


def test_unknown_groups_topics_and_queues_are_refused(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    for topic in ("one", "two"):
        rocketlake("topic", "create", topic, "-q", "1")
        cluster.send(topic, [b"x"], queue=0)
    read(cluster, "readers", "one", 1)
    for group, topic, problem in (
        ("nobody", "one", "'nobody' never read topic 'one', nor any other"),
        ("readers", "two", "'readers' never read topic 'two'; it reads one"),
        ("readers", "nowhere", "no topic 'nowhere'"),
    ):
        with pytest.raises(RocketLakeError, match=problem) as refused:
            rocketlake("group", "reset", group, "--topic", topic, "--to", "earliest", "-y")
        assert refused.value.hint
    with pytest.raises(UsageError, match="no queue 'broker-a/7'"):
        rocketlake("group", "reset", "readers", "--topic", "one", "--to", "0", "-y", "--queue", "broker-a/7")
    groups = {group["group"]: group["topics"] for group in json.loads(rocketlake("group", "list", "-o", "json"))}
    assert "nobody" not in groups
    assert groups["readers"] == ["one"]
    said = rocketlake("group", "reset", "early", "--topic", "one", "--to", "latest", "-y", "--force")
    assert "1 message will be passed over" in said


def test_a_running_group_is_not_set_back(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "busy", "-q", "1")
    cluster.send("busy", [b"x"], queue=0)
    consumer = Consumer("busy-group", "busy", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST)
    cluster.run(consumer.start())
    try:
        cluster.run(consumer.receive())
        with pytest.raises(RocketLakeError, match="is running") as refused:
            rocketlake("group", "reset", "busy-group", "--topic", "busy", "--to", "earliest", "-y")
        assert "stop its members" in refused.value.hint
    finally:
        cluster.run(consumer.stop())


def test_members_that_want_different_things_are_named(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "mixed", "-q", "2")
    consumers = [PullConsumer("mixed-group", namesrv=cluster.namesrv) for _ in range(2)]
    try:
        for consumer, tags in zip(consumers, ("TagA", "TagB"), strict=True):
            consumer.subscribe("mixed", tags)
            cluster.run(consumer.start())
        shown = rocketlake("group", "show", "mixed-group")
        assert shown.count("reads mixed (Tag") == 2
        assert "warning: the members want different messages of topic mixed" in shown
        found = json.loads(rocketlake("group", "show", "mixed-group", "-o", "json"))
        assert sorted(member["subscriptions"]["mixed"] for member in found["members"]) == ["TagA", "TagB"]
        assert len(found["warnings"]) == 1
    finally:
        for consumer in consumers:
            cluster.run(consumer.stop())


def test_targets() -> None:
    now_ms = 1_700_000_000_000
    assert Target.parse("+5", now_ms) == Target("shift", 5)
    assert Target.parse("1200", now_ms) == Target("offset", 1200)
    for text in ("1700000000000", "2023-11-14T22:13:20", "2023-11-14 17:13:20.000-05:00", "0s"):
        assert Target.parse(text, now_ms) == Target("time", now_ms)
    for text in ("1h", "-1h"):
        assert Target.parse(text, now_ms) == Target("time", now_ms - 3_600_000)
    for text in ("yesterday", "--5", "1.5", "+1h"):
        with pytest.raises(UsageError, match="is not understood") as refused:
            Target.parse(text, now_ms)
        assert "earliest" in refused.value.hint


def test_a_message_at_which_an_ordered_queue_stands_is_named(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "blocked", "-q", "1")
    cluster.send("blocked", [b"good", b"bad", b"behind"], queue=0)
    healed = asyncio.Event()

    async def work() -> tuple[str, str]:
        done = asyncio.Event()

        async def listen(messages: list[StoredMessage]) -> None:
            if messages[0].body == b"bad" and not healed.is_set():
                raise ValueError("no such account")
            if messages[0].body == b"behind":
                done.set()

        consumer = PushConsumer(
            "blockers", namesrv=cluster.namesrv, listener=listen, from_where="first", orderly=True,
            config=ConsumerConfig(suspend_ms=10),
        )  # fmt: skip
        consumer.subscribe("blocked")

        async def shown() -> str:
            command = (sys.executable, "-m", "rocketlake", "group", "show", "blockers", "-n", cluster.namesrv)
            show = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            return (await show.communicate())[0].decode()

        async with consumer, asyncio.timeout(60):
            while "does not get on" not in (stands := await shown()):
                pass
            healed.set()
            await done.wait()
            return stands, await shown()

    stands, after = cluster.run(work(), seconds=90)
    assert re.search(
        r"does not get on in .*blocked.* at offset 1, failed \d+ times: ValueError: no such account", stands
    )
    assert "does not get on" not in after


def test_a_mode_is_set_and_shown_with_what_is_in_flight(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    rocketlake("topic", "create", "parcels", "-q", "1")
    cluster.send("parcels", [b"%d" % n for n in range(5)], queue=0)

    async def pop() -> None:
        async with SimpleConsumer("packers", "parcels", namesrv=cluster.namesrv, from_where="first") as consumer:
            (message, *_) = await consumer.receive(3, invisible_ms=600_000, await_ms=20_000)
            await consumer.ack(message)

    cluster.run(pop())
    assert rocketlake("group", "mode", "packers", "pop", "--topic", "parcels") == (
        "group packers pops topic parcels at broker-a now\n"
    )
    assert json.loads(rocketlake("group", "show", "packers", "-o", "json"))["modes"] == [
        {"topic": "parcels", "broker": "broker-a", "mode": "pop", "shared_by": 0}
    ]
    shown = rocketlake("group", "show", "packers")
    assert "pops topic parcels at broker-a\n" in shown
    assert "lag 4 messages" in shown
    row = next(line for line in shown.splitlines() if line.startswith("parcels"))
    assert row.split()[:8] == ["parcels", "broker-a", "0", "5", "3", "2", "0", "4"]
    with pytest.raises(UsageError, match="'push' is not known"):
        rocketlake("group", "mode", "packers", "push", "--topic", "parcels")
