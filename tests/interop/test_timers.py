"""Messages for a time between both worlds: never early, each once; stores change hands while messages wait."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, apache_cluster, free_ports, run_driver
from rocketlake import Message, Producer, PullConsumer, RemoteError
from rocketlake.model.message import StoredMessage
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import BrokerProcess
from tests.interop.releases import jars_of
from tests.interop.test_living_migration import NAME, Command, takeover
from tests.stored import known_queues

pytestmark = pytest.mark.interop

COUNT = 30
SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "brokerName": "moved",
    "brokerIP1": "127.0.0.1",
}
TOPIC = "Later"
SOON, WAITING = range(20), range(20, 50)
WAIT_MS = 25_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create_topic(namesrv: str, topic: str) -> None:
    """It is there before the first message: consumers find its route at once."""
    command = [sys.executable, "-m", "rocketlake", "topic", "create", topic, "-n", namesrv]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


async def send(namesrv: str, numbers: Sequence[int], first_ms: int, step_ms: int) -> None:
    """Bodies are "number due", as those of the Java driver; by turns for a time and after a delay."""
    async with Producer("later", namesrv=namesrv) as producer:
        for place, number in enumerate(numbers):
            delay_ms = first_ms + place * step_ms
            due = now_ms() + delay_ms
            body = b"%d %d" % (number, due)
            later = Message(TOPIC, body, delay=delay_ms / 1000) if number % 2 else Message(TOPIC, body, deliver_at=due)
            await producer.send(later)


async def delivered(namesrv: str, count: int) -> list[StoredMessage]:
    """All that was ever stored in the topic, when there are so many or more."""
    async with PullConsumer("reader", namesrv=namesrv, auto_commit=False) as consumer:
        consumer.assign(await known_queues(consumer, TOPIC))
        await consumer.seek_to_begin()
        found: list[StoredMessage] = []
        while len(found) < count:
            found += await consumer.poll(timeout_ms=500, max_messages=100)
        while more := await consumer.poll(timeout_ms=2000, max_messages=100):
            found += more
        return found


def judge(messages: list[StoredMessage], numbers: Sequence[int]) -> None:
    """Each of these once, none stored before its time."""
    words = [tuple(map(int, message.body.split())) for message in messages]
    assert sorted(number for number, _due in words) == list(numbers)
    early = [number for (number, due), message in zip(words, messages, strict=True) if message.store_ms < due]
    assert early == []


@pytest.mark.parametrize("peer", ["server550", "client49"])
def test_java_sends_for_a_time_to_our_broker(our_namesrv: str, peer: str) -> None:
    topic = f"Later_{peer}"
    create_topic(our_namesrv, topic)
    with ThreadPoolExecutor(1) as pool:
        came = pool.submit(run_driver, "Later", "consume", our_namesrv, topic, "later", COUNT, 90, peer=peer)
        assert run_driver("Later", "send", our_namesrv, topic, COUNT, 3000, 130, peer=peer) == {"sent": COUNT}
        result = came.result()
    print(peer, result)
    assert (result["distinct"], result["duplicates"], result["early"]) == (COUNT, 0, 0)


async def test_our_client_sends_for_a_time_to_apache(apache_jars: None, tmp_path: Path) -> None:
    jars_of("server550")
    with apache_cluster(tmp_path, settings=SIZES, peer="server550") as cluster:
        create_topic(cluster.namesrv, TOPIC)
        await send(cluster.namesrv, range(COUNT), 2000, 130)
        judge(await delivered(cluster.namesrv, COUNT), range(COUNT))


def test_java_takes_messages_back_from_our_broker(our_namesrv: str) -> None:
    """Of 31 messages 15 are taken back. The last one is due soon: Java's client is told that it is too late."""
    topic = "Recalled"
    create_topic(our_namesrv, topic)
    with ThreadPoolExecutor(1) as pool:
        came = pool.submit(run_driver, "Later", "consume", our_namesrv, topic, "recalled", 16, 90, peer="server550")
        told = run_driver("Recall", our_namesrv, topic, COUNT, 12_000, peer="server550")
        result = came.result()
    assert told == {"sent": 31, "recalled": 15, "wrong": 0, "late": ResponseCode.ILLEGAL_OPERATION}
    assert (result["distinct"], result["duplicates"], result["early"]) == (16, 0, 0)


async def test_our_client_takes_messages_back_from_apache(apache_jars: None, tmp_path: Path) -> None:
    jars_of("server550")
    with apache_cluster(tmp_path, settings=SIZES | {"recallMessageEnable": "true"}, peer="server550") as cluster:
        create_topic(cluster.namesrv, TOPIC)
        await recall_odd(cluster.namesrv)


async def test_apache_that_takes_none_back_says_so_with_the_setting(apache_jars: None, tmp_path: Path) -> None:
    jars_of("server550")
    with apache_cluster(tmp_path, settings=SIZES, peer="server550") as cluster:
        create_topic(cluster.namesrv, TOPIC)
        async with Producer("later", namesrv=cluster.namesrv) as producer:
            sent = await producer.send(Message(TOPIC, b"0 0", delay=20))
            with pytest.raises(RemoteError, match="recallMessageEnable"):
                await producer.recall(TOPIC, sent.recall_handle)


async def recall_odd(namesrv: str) -> None:
    """Of 30 messages the odd ones are taken back, each fourth twice; the even ones come."""
    async with Producer("later", namesrv=namesrv) as producer:
        sent = [await producer.send(Message(TOPIC, b"%d %d" % (n, now_ms()), delay=8)) for n in range(COUNT)]
        for number in range(1, COUNT, 2):
            for _ in range(2 if number % 4 == 1 else 1):
                assert await producer.recall(TOPIC, sent[number].recall_handle) == sent[number].message_id
    judge(await delivered(namesrv, COUNT // 2), range(0, COUNT, 2))


async def test_a_recall_that_waits_counts_when_the_store_changes_hands(apache_jars: None, tmp_path: Path) -> None:
    """Taken back at our broker, due at Apache's on the same store."""
    jars_of("server550")
    cluster = ApacheCluster(tmp_path, settings=SIZES, peer="server550")
    try:
        cluster.start_namesrv()
        with ours_on(cluster, tmp_path).running():
            create_topic(cluster.namesrv, TOPIC)
            async with Producer("later", namesrv=cluster.namesrv) as producer:
                due = now_ms() + WAIT_MS
                sent = [await producer.send(Message(TOPIC, b"%d %d" % (n, due), deliver_at=due)) for n in range(COUNT)]
                for each in sent[::2]:
                    await producer.recall(TOPIC, each.recall_handle)
        cluster.start_broker()
        judge(await delivered(cluster.namesrv, COUNT // 2), range(1, COUNT, 2))
    finally:
        cluster.stop()


async def load(namesrv: str) -> None:
    """Some that come before this returns, some that wait on."""
    create_topic(namesrv, TOPIC)
    await send(namesrv, WAITING, WAIT_MS, 100)
    await send(namesrv, SOON, 500, 50)
    judge(await delivered(namesrv, len(SOON)), SOON)


def ours_on(cluster: ApacheCluster, root: Path) -> BrokerProcess:
    return BrokerProcess(root / "ours", **SIZES, namesrvAddr=cluster.namesrv, storePathRootDir=cluster.store)


@pytest.mark.parametrize("peer", ["server550", "server"])
async def test_what_waits_at_apache_is_delivered_by_us(apache_jars: None, tmp_path: Path, peer: str) -> None:
    jars_of(peer)
    with apache_cluster(tmp_path, settings=SIZES, peer=peer) as cluster:
        await load(cluster.namesrv)
        cluster.stop_broker()
        with ours_on(cluster, tmp_path).running():
            judge(await delivered(cluster.namesrv, len(SOON) + len(WAITING)), range(50))


@pytest.mark.parametrize("peer", ["server550", "server"])
async def test_what_waits_at_ours_is_delivered_by_apache(apache_jars: None, tmp_path: Path, peer: str) -> None:
    jars_of(peer)
    cluster = ApacheCluster(tmp_path, settings=SIZES, peer=peer)
    try:
        cluster.start_namesrv()
        with ours_on(cluster, tmp_path).running():
            await load(cluster.namesrv)
        cluster.start_broker()
        judge(await delivered(cluster.namesrv, len(SOON) + len(WAITING)), range(50))
    finally:
        cluster.stop()


async def test_what_waits_at_apache_comes_once_behind_a_takeover(apache_jars: None, tmp_path: Path) -> None:
    """Some come before it, some are due meanwhile; Apache has stored most of them anew; a tenth is taken back."""
    jars_of("server550")
    (port,) = free_ports(1)
    settings = SIZES | {"brokerName": NAME, "timerRollWindowSlot": 3, "recallMessageEnable": "true"}
    settings |= {"waitTimeMillsInSendQueue": 10_000}  # on a busy machine
    cluster = ApacheCluster(tmp_path / "apache", settings=settings, peer="server550")
    await asyncio.to_thread(cluster.start)
    words = ("follow", cluster.broker, "--dir", str(tmp_path / "ours"), "--port", str(port))
    follow = Command(tmp_path / "follow.log", *words)
    try:
        create_topic(cluster.namesrv, TOPIC)
        await follow.until("in step: lacks")
        async with Producer("later", namesrv=cluster.namesrv) as producer:
            begin = now_ms() + 5000
            for number in range(60):
                due = begin + 500 * number
                sent = await producer.send(Message(TOPIC, b"%d %d" % (number, due), deliver_at=due))
                if number % 10 == 9:
                    await producer.recall(TOPIC, sent.recall_handle)
        await asyncio.sleep(max(0, begin + 3000 - now_ms()) / 1000)
        said = await takeover(cluster.namesrv, "--yes")
        taken_over = now_ms()
        left = [number for number in range(60) if number % 10 != 9]
        found = await delivered(cluster.namesrv, len(left))
        judge(found, left)
        by_ours = sum(message.store_ms > taken_over for message in found)
        print(said, by_ours, "by ours, late by", late_ms(found), "ms")
        assert 0 < by_ours < len(left)
    finally:
        await asyncio.to_thread(follow.stop)
        await asyncio.to_thread(cluster.kill)


def late_ms(messages: list[StoredMessage]) -> int:
    """By how much the latest came behind its time."""
    return max(message.store_ms - int(message.body.split()[1]) for message in messages)
