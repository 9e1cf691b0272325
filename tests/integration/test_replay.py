"""`rocketlake replay` over a real broker: a part of a topic once more, each message once, whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake import Message, Producer
from rocketlake.base.crash_point import struck_by
from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.broker.broker import Broker
from rocketlake.cli.tree import app
from rocketlake.client.consumer.damage import DAMAGE
from rocketlake.model.message import StoredMessage
from rocketlake.model.moment import parse_time
from rocketlake.model.topic import TopicConfig
from rocketlake.spark.replay.copies import FROM
from rocketlake.spark.replay.request import ReplayRequest
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed, second_broker
from tests.poison import Fate
from tests.poisoned import QUEUE, TOPIC, PoisonedQueue, only_good
from tests.stored import all_stored


@pytest.fixture
def replay(rocketlake: Typed, tmp_path: Path) -> Typed:
    """replay("orders", "--to-topic", "again") -> output; fails unless the exit code is 0."""
    return partial(rocketlake, "replay", "--state", str(tmp_path / "state"))


def everything(cluster: EmbeddedCluster, topic: str) -> list[StoredMessage]:
    return cluster.run(all_stored(cluster.namesrv, topic))


def send(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    async def work() -> None:
        # All are under way at once, and share this process with the broker: on a busy machine the last ones wait long.
        async with Producer("sender", namesrv=cluster.namesrv) as producer:
            sends = []
            for number in range(count):
                extra = {"weight": str(number), "colour": "red"}
                body, tag = b"%d" % number, "AB"[number % 2]
                message = Message(topic, body, tags=tag, keys=f"k{number}", properties=extra)
                sends.append(producer.send(message, timeout_ms=30_000))
            await asyncio.gather(*sends)

    cluster.run(work())


def bodies(messages: list[StoredMessage]) -> list[int]:
    return sorted(int(message.body) for message in messages)


def test_a_topic_is_copied_once_with_all_that_belongs_to_its_messages(cluster: EmbeddedCluster, replay: Typed) -> None:
    send(cluster, "whole", 100)
    assert "100 messages replayed into whole-again" in replay("whole", "--to-topic", "whole-again")
    originals = {message.body: message for message in everything(cluster, "whole")}
    copies = everything(cluster, "whole-again")
    assert bodies(copies) == [*range(100)]
    for copy in copies:
        original = originals[copy.body]
        assert (copy.tags, copy.keys, copy.message_id) == (original.tags, original.keys, original.message_id)
        assert copy.properties["colour"] == "red"
        assert copy.properties[FROM] == f"broker-a/{original.queue_id}/{original.queue_offset}"
    for queue in {copy.queue_id for copy in copies}:
        order = [copy.properties[FROM] for copy in copies if copy.queue_id == queue]
        assert order == sorted(order, key=lambda place: int(place.rpartition("/")[2]))


def test_the_group_in_whose_name_it_reads_is_shown_with_all_only(
    cluster: EmbeddedCluster, replay: Typed, rocketlake: Typed
) -> None:
    send(cluster, "named", 1)
    replay("named", "--to-topic", "named-again")
    assert "ROCKETLAKE_REPLAY" in rocketlake("group", "list", "--all")
    assert "ROCKETLAKE" not in rocketlake("group", "list")


def test_run_again_it_copies_nothing_with_and_without_its_record(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path
) -> None:
    send(cluster, "twice", 30)
    replay("twice", "--to-topic", "twice-again")
    assert "0 messages replayed: done before (30 in all)" in replay("twice", "--to-topic", "twice-again")
    for file in (tmp_path / "state").iterdir():
        file.unlink()
    assert "0 messages replayed into twice-again" in replay("twice", "--to-topic", "twice-again")
    assert bodies(everything(cluster, "twice-again")) == [*range(30)]


def test_a_time_range_and_tags(cluster: EmbeddedCluster, replay: Typed) -> None:
    for _ in range(3):
        send(cluster, "range", 10)
    stored = sorted({message.store_ms for message in everything(cluster, "range")})
    first, last = stored[len(stored) // 4], stored[3 * len(stored) // 4]
    replay("range", "--to-topic", "part", "--from", str(first), "--until", str(last), "--tags", "B")
    wanted = [m for m in everything(cluster, "range") if first <= m.store_ms < last and m.tags == "B"]
    assert wanted
    assert bodies(everything(cluster, "part")) == bodies(wanted)


class Crash(BaseException):
    pass


def once() -> Callable[[str], None]:
    """Strikes at the first point it meets."""
    points: list[str] = []

    def strike(point: str) -> None:
        points.append(point)
        if len(points) == 1:
            raise Crash(point)

    return strike


def make_topic(brokers: Iterable[Broker], topic: str, queues: int) -> None:
    for broker in brokers:
        broker.topics.put(TopicConfig(topic, read_queues=queues, write_queues=queues))


def test_a_broker_that_is_away_is_named_and_its_messages_come_later(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path
) -> None:
    def join(broker: Broker) -> None:
        brokers = cluster.standalone.broker, broker

        async def make() -> None:
            make_topic(brokers, "away", 2)
            for each in brokers:
                await each.cluster.registration.register()

        cluster.run(make())

    with second_broker(cluster, tmp_path / "b") as broker:
        join(broker)
        send(cluster, "away", 400)
        with struck_by(once()), pytest.raises((Crash, BaseExceptionGroup)):
            replay("away", "--to-topic", "away-again")
    for _ in range(2):
        with pytest.raises(RocketLakeError, match=r"not done.*broker-b, queue 0"):
            replay("away", "--to-topic", "away-again")
    assert len(everything(cluster, "away-again")) < 400
    with second_broker(cluster, tmp_path / "b") as broker:
        join(broker)
        assert "from 4 queues of broker-a, broker-b" in replay("away", "--to-topic", "away-again")
        assert bodies(everything(cluster, "away-again")) == [*range(400)]
        assert "done before" in replay("away", "--to-topic", "away-again")


def test_copies_at_a_broker_that_is_away_count_though_the_record_is_lost(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path
) -> None:
    def join(broker: Broker) -> None:
        async def make() -> None:
            make_topic([cluster.standalone.broker], "hidden", 2)
            for each in (cluster.standalone.broker, broker):
                make_topic([each], "hidden-again", 1)
                await each.cluster.registration.register()

        cluster.run(make())

    with second_broker(cluster, tmp_path / "b") as broker:
        join(broker)
        send(cluster, "hidden", 100)
        replay("hidden", "--to-topic", "hidden-again")
    here = len(everything(cluster, "hidden-again"))
    assert 0 < here < 100
    for file in (tmp_path / "state").iterdir():
        file.unlink()
    with pytest.raises(RocketLakeError, match=r"not done.*hidden-again at broker-b, queue 0"):
        replay("hidden", "--to-topic", "hidden-again")
    assert len(everything(cluster, "hidden-again")) == here
    with second_broker(cluster, tmp_path / "b") as broker:
        join(broker)
        assert "0 messages replayed" in replay("hidden", "--to-topic", "hidden-again")
        assert bodies(everything(cluster, "hidden-again")) == [*range(100)]


def test_queues_that_are_found_later_are_copied_as_far_as_the_first_run_goes(
    cluster: EmbeddedCluster, replay: Typed
) -> None:
    broker = cluster.standalone.broker
    cluster.run(resize(broker, "grows", 4))
    send(cluster, "grows", 100)
    cluster.run(resize(broker, "grows", 2))  # what a broker that is away looks like to the first run
    replay("grows", "--to-topic", "grows-again")
    assert len(everything(cluster, "grows-again")) < 100
    cluster.run(resize(broker, "grows", 4))
    send(cluster, "grows", 8)
    replay("grows", "--to-topic", "grows-again")
    assert bodies(everything(cluster, "grows-again")) == [*range(100)]


async def resize(broker: Broker, topic: str, queues: int) -> None:
    make_topic([broker], topic, queues)
    await broker.cluster.registration.register()


@pytest.mark.parametrize("is_record_lost", [False, True])
@pytest.mark.parametrize("numbers", [(2, 6), (6, 2)])
def test_queues_of_the_target_change_between_runs(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path, numbers: tuple[int, int], is_record_lost: bool
) -> None:
    source = f"moved-{numbers[0]}-{is_record_lost}"
    target = f"{source}-again"
    broker = cluster.standalone.broker
    cluster.run(resize(broker, source, 4))
    cluster.run(resize(broker, target, numbers[0]))
    send(cluster, source, 2000)
    seen: list[str] = []

    def strike(point: str) -> None:
        seen.append(point)
        if len(seen) == 6:
            raise Crash(point)

    with struck_by(strike), pytest.raises((Crash, BaseExceptionGroup)):
        replay(source, "--to-topic", target)
    if is_record_lost:
        for file in (tmp_path / "state").glob("*.json*"):
            file.unlink()
    # Fewer queues to send to, but all can be read: this is how a topic is made smaller.
    broker.topics.put(TopicConfig(target, read_queues=max(numbers), write_queues=numbers[1]))
    cluster.run(broker.cluster.registration.register())
    replay(source, "--to-topic", target)
    assert bodies(everything(cluster, target)) == [*range(2000)]


@pytest.mark.long
def test_a_topic_made_anew_under_a_replay_is_not_taken_for_its_end(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path
) -> None:
    broker = cluster.standalone.broker
    cluster.run(resize(broker, "anew", 1))
    send(cluster, "anew", 600)
    with struck_by(once()), pytest.raises((Crash, BaseExceptionGroup)):
        replay("anew", "--to-topic", "anew-again")
    copied = len(everything(cluster, "anew-again"))
    assert 0 < copied < 600
    CliRunner().invoke(app, ("topic", "delete", "anew", "-y", "--namesrv", cluster.namesrv), catch_exceptions=False)
    cluster.run(resize(broker, "anew", 1))
    send(cluster, "anew", copied)
    with pytest.raises(RocketLakeError, match=rf"messages {copied} to 599 of topic anew.*are gone"):
        replay("anew", "--to-topic", "anew-again")


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_that_dies_again_and_again_copies_each_message_once(
    cluster: EmbeddedCluster, replay: Typed, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    source, target = f"crash{seed}", f"crash{seed}-again"
    send(cluster, source, 600)

    def strike(point: str) -> None:
        if dice.random() < 0.5:
            raise Crash(point)

    runs = 0
    while True:
        runs += 1
        try:
            with struck_by(strike if runs < 6 else lambda point: None):
                replay(source, "--to-topic", target)
            break
        except (Crash, BaseExceptionGroup):
            if dice.random() < 0.3:
                for file in (tmp_path / "state").glob("*.json*"):
                    file.unlink()
    assert runs > 1
    assert bodies(everything(cluster, target)) == [*range(600)]


def test_killed_by_the_system_it_goes_on(cluster: EmbeddedCluster, replay: Typed, tmp_path: Path) -> None:
    send(cluster, "killed", 500)
    state = str(tmp_path / "state")
    command = [sys.executable, "-m", "rocketlake", "replay", "killed", "--to-topic", "killed-again", "--state", state]
    environment = os.environ | {"NAMESRV_ADDR": cluster.namesrv, "ROCKETLAKE_CRASH": "replay.after_send"}
    died = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert "messages replayed into killed-again" in replay("killed", "--to-topic", "killed-again")
    assert bodies(everything(cluster, "killed-again")) == [*range(500)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("a", "--to-topic", "a"), "into itself"),
        (("a", "--to-topic", "b", "--from", "noon"), "holds time 'noon'"),
        (("a", "--to-topic", "b", "--from", "2026-11-22", "--until", "2026-11-21"), "ends before it begins"),
        (("a", "--to-topic", "b", "--tags", "A", "--sql92", "x = 1"), "by tags or by SQL92"),
        (("no-such-topic", "--to-topic", "b"), "no topic 'no-such-topic'"),
        (("a", "--to-topic", "SCHEDULE_TOPIC_XXXX"), "belongs to the broker"),
    ],
)
def test_wrong_wishes_are_refused_with_a_cure(replay: Typed, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(RocketLakeError, match=problem) as refused:
        replay(*words)
    assert refused.value.hint


@pytest.mark.parametrize("option", ["--from", "--until"])
def test_a_time_that_moves_is_refused_with_the_time_it_is_now(replay: Typed, option: str) -> None:
    with pytest.raises(UsageError, match="another time at each run") as refused:
        replay("orders", "--to-topic", "again", option, "-1h")
    written = refused.value.hint.split()[2].rstrip(",")
    assert abs(parse_time(option, written) - (time.time() - 3600) * 1000) < 600_000


def test_equal_requests_are_one_replay() -> None:
    assert ReplayRequest("a", "b", 5).identity == ReplayRequest("a", "b", 5).identity
    assert ReplayRequest("a", "b", 5).identity != ReplayRequest("a", "b", 6).identity


LOST_ANSWERS = 3


@pytest.mark.long
def test_damaged_messages_are_copied_as_they_are_stored_or_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All kinds of tests/poison.py: the replay comes to the end, again without its record, and doubles nothing.

    Each send is stored, and the answers to the first ones are lost: what is damaged among them is told all the same.
    """
    losing = iter(range(LOST_ANSWERS))

    def lose_answer(point: str) -> None:
        if point == "replay.after_send" and next(losing, None) is not None:
            raise LinkError("the line broke")

    with EmbeddedCluster(tmp_path / "cluster") as poisoned:
        world = PoisonedQueue(poisoned.namesrv, tmp_path / "cluster" / "store")
        poisoned.run(world.fill())
        world.rot()
        words = ("replay", TOPIC, "--to-topic", "copies", "--namesrv", poisoned.namesrv)
        with struck_by(lose_answer):
            done = CliRunner().invoke(app, (*words, "--state", str(tmp_path / "one")), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        again = CliRunner().invoke(app, (*words, "--state", str(tmp_path / "two")), catch_exceptions=False)
        assert "0 messages replayed into copies" in again.output
        copies = sorted(everything(poisoned, "copies"), key=lambda copy: int(copy.properties[FROM].rpartition("/")[2]))
    copies = [copy for copy in copies if copy.properties[FROM].split("/")[1] == str(QUEUE) and copy.body != b"first"]
    sound = [copy.body for copy in copies if DAMAGE not in copy.properties]
    assert only_good(sound) == world.good
    assert [body for body in sound if not body.startswith(b"good ")] == world.odd_bodies
    damaged = [copy for copy in copies if DAMAGE in copy.properties]
    as_stored = {kind.body for kind in world.of(Fate.DAMAGED) if kind.rot is None}
    assert as_stored <= {copy.body for copy in damaged}
    lost = len(world.of(Fate.DAMAGED)) + len(world.of(Fate.ROTTEN)) - len(damaged)
    assert f"{len(damaged)} damaged messages among them" in done.output
    assert f"{lost} messages cannot be copied" in done.output
    assert len([text for text in caplog.messages if "cannot be copied" in text]) == lost
