"""A producer that sends batches again, to a broker that is killed, loses power and restarts: each message once.

The producer does what RocketLake's sink does: it numbers the rows of a batch by queue, hands them in piece by piece,
and when it does not know what became of one it begins the batch anew, cut into other pieces. Old requests come late.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.model.topic import TopicConfig
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import FrameReader, decode_frame, encode_command
from rocketlake.protocol.headers.admin_topic import DeleteTopicHeader
from rocketlake.protocol.headers.send import SendHeaderV2, SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.seeds import seeds

WHOLE = int(os.environ.get("ROCKETLAKE_SIM_SEEDS", "10"))
HOST = "10.0.0.100"
QUEUES = 2


class Peer(asyncio.Protocol):
    """A raw connection; `answers` by opaque."""

    def __init__(self) -> None:
        self.reader = FrameReader()
        self.answers: dict[int, Command] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            answer = decode_frame(frame)
            self.answers[answer.opaque] = answer


def batch_request(opaque: int, queue_id: int, mark: str | None, bodies: list[bytes], **own: str) -> bytes:
    header = SendHeaderV2(
        producer_group="sink", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
        sys_flag=0, born_timestamp=1, flag=0, properties="" if mark is None else f"__RL_SEQ\x01{mark}\x02", batch=True,
    )  # fmt: skip
    body = encode_batch(Message.with_properties("T", each, own) for each in bodies)
    command = Command.request(RequestCode.SEND_BATCH_MESSAGE, header, body)
    command.opaque = opaque
    return b"".join(bytes(part) for part in encode_command(command))


def mark(task: str, bodies: list[bytes], first: int) -> str:
    """The mark of a request that begins with row `first`, as the sink writes it."""
    before, after = (crc32(encode_batch(Message("T", body) for body in part)) for part in (bodies[:first], bodies))
    return f"{task}/{first}/lay/{len(bodies) - first}/{before:08x}/{after:08x}"


class World:
    """One broker on a disk in memory, and one connection."""

    def __init__(self, *, sync: bool) -> None:
        self.clock = ManualClock(1_700_000_000_000)
        self.disk = MemoryFiles(clock=self.clock)
        self.sync = sync
        self.opaque = 0

    async def start(self) -> None:
        net = MemoryNet(clock=self.clock)
        self.broker = Broker(
            BrokerConfig(
                broker_name="b", cluster_name="C", listen_host=HOST, listen_port=10911, fast_listen_port=0,
                store_root=Path("/store"), admin_access=AdminAccess.ANY,
            ),
            StoreConfig(
                commit_log_file_bytes=16 * 1024, consume_queue_file_bytes=2000, index_slots=10, index_entries=100,
                flush_disk_type="SYNC_FLUSH" if self.sync else "ASYNC_FLUSH",
            ),
            files=self.disk,
            clock=self.clock,
            network=net.host(HOST),
            workers=InlineWorker,
        )  # fmt: skip
        await self.broker.start()
        if self.broker.topics.get("T") is None:
            self.broker.topics.put(TopicConfig("T", read_queues=QUEUES, write_queues=QUEUES))
            self.broker.topics.save()
        self.peer = Peer()
        await net.host("10.0.0.1").connect(lambda: self.peer, HOST, 10911)

    async def stop(self) -> None:
        self.peer.transport.close()
        await self.clock.settle()
        await self.broker.stop()

    async def crash(self, disk: MemoryFiles) -> None:
        """The next start finds this disk; what the old broker's objects still do happens to another one."""
        old, self.disk = self.broker, disk
        self.peer.transport.close()
        await self.clock.settle()
        await old.stop()
        await self.start()

    async def delete_topic(self) -> None:
        """And make it anew."""
        self.opaque += 1
        command = Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="T"))
        command.opaque = self.opaque
        self.peer.transport.write(b"".join(bytes(part) for part in encode_command(command)))
        await self.clock.run_for(1000)
        assert self.peer.answers[self.opaque].code == ResponseCode.SUCCESS
        self.broker.topics.put(TopicConfig("T", read_queues=QUEUES, write_queues=QUEUES))
        self.broker.topics.save()

    async def send(self, queue_id: int, mark: str | None, bodies: list[bytes], **own: str) -> Command:
        self.opaque += 1
        self.peer.transport.write(batch_request(self.opaque, queue_id, mark, bodies, **own))
        await self.clock.run_for(50 if self.sync else 0)
        await self.clock.settle()
        return self.peer.answers[self.opaque]

    def bodies(self, queue_id: int) -> list[bytes]:
        store, found, offset = self.broker.store, [], 0
        while (got := store.get("T", queue_id, offset, 100, 1 << 20)).count:
            for part in got.slices:
                found += [message.body for message in decode_records(bytes(part))]
            offset = got.next_offset
        return found


@dataclass
class Producer:
    """One task of one query."""

    world: World
    random: random.Random
    name: str
    batch: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    """Rows of the present batch by queue."""
    late: list[tuple[int, str, list[bytes]]] = field(default_factory=list)

    def request(self, queue_id: int, first: int, count: int) -> tuple[int, str, list[bytes]]:
        query, _, task = self.name.rpartition("/")
        bodies = [self.body(self.batch, queue_id, number) for number in range(first + count)]
        return queue_id, mark(f"{query}/{self.batch}/{task}", bodies, first), bodies[first:]

    def body(self, batch: int, queue_id: int, number: int) -> bytes:
        return f"{self.name} {batch} {queue_id} {number}".encode()

    async def run_batch(self, *, gives_up: bool) -> bool:
        """Send the batch from its beginning; False if it was given up somewhere."""
        progress = dict.fromkeys(self.rows, 0)
        while open_queues := [queue for queue in self.rows if progress[queue] < self.rows[queue]]:
            queue = self.random.choice(open_queues)
            count = min(self.random.randint(1, 7), self.rows[queue] - progress[queue])
            request = self.request(queue, progress[queue], count)
            if self.random.random() < 0.2:
                self.late.append(request)
            if gives_up and self.random.random() < 0.15:
                # Pieces of this attempt may still be on their way, and come while the next one is under way.
                self.late += [self.request(queue, first, 2) for first in range(progress[queue], self.rows[queue] - 1)]
                return False
            answer = await self.world.send(*request)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            progress[queue] += count
            if self.late and self.random.random() < 0.3:
                # A request of an earlier attempt or batch that was on its way all the time; whatever is answered.
                await self.world.send(*self.late.pop(self.random.randrange(len(self.late))))
        return True


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("seed", seeds("producer sequences", short=4, whole=WHOLE))
def test_each_message_is_stored_once_whatever_is_sent_again(seed: int, sync: bool) -> None:
    async def work() -> None:
        numbers = random.Random(f"{seed}{sync}")
        world = World(sync=sync)
        await world.start()
        producers = [Producer(world, numbers, name) for name in ("q1/0", "q1/1", "q2/0")]
        sent: dict[int, list[bytes]] = {queue: [] for queue in range(QUEUES)}
        for number in range(5):
            for producer in producers:
                producer.batch = number
                producer.rows = {queue: numbers.randint(0, 20) for queue in range(QUEUES)}
                while not await producer.run_batch(gives_up=numbers.random() < 0.5):
                    await disturb(world, numbers)
                for queue, count in producer.rows.items():
                    sent[queue] += [producer.body(number, queue, row) for row in range(count)]
            await disturb(world, numbers)
        for queue in range(QUEUES):
            assert world.bodies(queue) == in_order(world.bodies(queue), sent[queue])
        await world.stop()

    asyncio.run(work())


async def disturb(world: World, numbers: random.Random) -> None:
    """Something happens to the broker, or only time passes. Without SYNC_FLUSH a power cut may lose what was
    acknowledged, so it comes only after a flush."""
    what = numbers.choice(["nothing", "time", "restart", "kill", "power"])
    if what == "time":
        await world.clock.run_for(numbers.choice([300, 6000, 12_000]))
    elif what == "restart":
        await world.stop()
        await world.start()
    elif what == "kill":
        await world.crash(world.disk.killed())
    elif what == "power":
        if not world.sync:
            await world.clock.run_for(20_000)
        await world.crash(world.disk.power_cut(numbers))


def in_order(found: list[bytes], sent: list[bytes]) -> list[bytes]:
    """`sent` in the order of `found`, which holds producers in turn: equal only if each is there once, in its order."""
    assert len(found) == len(set(found)) == len(sent)
    for producer in ("q1/0", "q1/1", "q2/0"):
        begin = f"{producer} ".encode()
        assert [body for body in found if body.startswith(begin)] == [body for body in sent if body.startswith(begin)]
    return found


# -- single cases ------------------------------------------------------------------------------------------------------


def run_one(case: Any, *, sync: bool = False) -> None:
    async def work() -> None:
        world = World(sync=sync)
        await world.start()
        await case(world)
        await world.stop()

    asyncio.run(work())


@pytest.mark.parametrize("sync", [False, True])
def test_a_replay_is_answered_as_success_and_says_how_much_was_known(sync: bool) -> None:
    async def case(world: World) -> None:
        first = (await world.send(0, "q/0/0/0/l", [b"a", b"b"])).header(SendReplyHeader)
        assert (first.queue_offset, first.known, len(first.msg_id.split(","))) == (0, None, 2)
        again = await world.send(0, "q/0/0/0/l", [b"a", b"b"])
        reply = again.header(SendReplyHeader)
        assert again.code == ResponseCode.SUCCESS
        assert (reply.queue_id, reply.queue_offset, reply.msg_id, reply.known) == (0, -1, "0" * 32, 2)
        partly = (await world.send(0, "q/0/0/1/l", [b"b", b"c", b"d"])).header(SendReplyHeader)
        assert (partly.queue_offset, partly.known, len(partly.msg_id.split(","))) == (2, 1, 2)
        assert world.bodies(0) == [b"a", b"b", b"c", b"d"]

    run_one(case, sync=sync)


def test_a_replay_after_a_power_cut_brings_what_was_lost() -> None:
    async def case(world: World) -> None:
        await world.send(0, "q/0/0/0/l", [b"a", b"b"])
        await world.clock.run_for(30_000)
        await world.send(0, "q/0/0/2/l", [b"c", b"d"])
        await world.crash(world.disk.power_cut())
        assert world.bodies(0) == [b"a", b"b"]
        lost = await world.send(0, "q/0/0/4/l", [b"e"])
        assert lost.code == ResponseCode.MESSAGE_ILLEGAL and "2 is next" in (lost.remark or "")
        await world.send(0, "q/0/0/0/l", [b"a", b"b", b"c", b"d", b"e"])
        assert world.bodies(0) == [b"a", b"b", b"c", b"d", b"e"]

    run_one(case)


def test_a_table_that_knows_more_than_the_log_holds_is_made_from_the_log() -> None:
    async def case(world: World) -> None:
        await world.send(0, "q/0/0/0/l", [b"a", b"b"])
        await world.stop()
        text = world.disk.read_bytes(Path("/store/config/producerSequences.json")).decode()
        offset = world.broker.store.max_physical_offset
        changed = text.replace(f'"logOffset":{offset}', f'"logOffset":{offset + 500}').replace('"0":2', '"0":5')
        assert changed.count('"0":5') == 1
        world.disk.write_bytes(Path("/store/config/producerSequences.json"), changed.encode())
        await world.start()
        await world.send(0, "q/0/0/0/l", [b"a", b"b", b"c"])
        assert world.bodies(0) == [b"a", b"b", b"c"]

    run_one(case)


def test_a_replay_with_another_content_is_refused_also_after_a_restart_and_a_torn_batch() -> None:
    """S1. What is compared survives a kill (from the saved table and the log) and a power cut (from the records)."""
    old, new = [b"row %d" % number for number in range(9)], [b"other %d" % number for number in range(9)]

    async def refused(world: World, there: int) -> None:
        assert world.bodies(0) == old[:there]
        for first, end in ((0, 9), (0, there), (there, 9)):
            answer = await world.send(0, mark("q/0/0", new[:end], first), new[first:end])
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "with other rows" in (answer.remark or "")
        assert world.bodies(0) == old[:there]

    async def case(world: World) -> None:
        await world.send(0, mark("q/0/0", old[:4], 0), old[:4])
        await refused(world, 4)
        await world.crash(world.disk.killed())
        await refused(world, 4)
        await world.clock.run_for(30_000)
        await world.send(0, mark("q/0/0", old[:8], 4), old[4:8])
        await refused(world, 8)
        await world.stop()
        await world.start()
        await refused(world, 8)
        for end in range(4, 9):
            answer = await world.send(0, mark("q/0/0", old, end), old[end:])
            assert answer.code == ResponseCode.SUCCESS, "the same rows, cut anywhere"
        assert world.bodies(0) == old

    run_one(case)


def test_the_digest_of_a_torn_batch_is_made_from_its_records() -> None:
    rows = [b"row %d" % number for number in range(9)]

    async def case(world: World) -> None:
        await world.send(0, mark("q/0/0", rows[:2], 0), rows[:2])
        await world.clock.run_for(30_000)
        place = world.broker.store.max_physical_offset
        await world.send(0, mark("q/0/0", rows[:8], 2), rows[2:8])
        size = (world.broker.store.max_physical_offset - place) // 6
        log = Path("/store/commitlog/00000000000000000000")
        torn = world.disk.killed()
        whole = torn.read_bytes(log)
        end = place + 4 * size
        torn.write_bytes(log, whole[:end] + bytes(len(whole) - end))
        await world.crash(torn)
        assert world.bodies(0) == rows[:6]
        other = [*rows[:5], b"other", *rows[6:]]
        answer = await world.send(0, mark("q/0/0", other, 0), other)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "with other rows" in (answer.remark or "")
        await world.send(0, mark("q/0/0", rows, 0), rows)
        assert world.bodies(0) == rows

    run_one(case)


@pytest.mark.parametrize("then", ["nothing", "restart", "kill"])
def test_a_batch_is_stored_again_when_its_topic_was_deleted_and_made_again(then: str) -> None:
    """H6. In memory, in a file from before the deletion, and in the log."""

    async def case(world: World) -> None:
        await world.send(0, "q/0/0/0/l", [b"old a", b"old b"])
        await world.clock.run_for(20_000)
        await world.send(0, "q/0/0/2/l", [b"old c", b"old d"])
        await world.delete_topic()
        await world.send(0, "q/0/0/0/l", [b"a"])
        if then == "restart":
            await world.stop()
            await world.start()
        elif then == "kill":
            await world.crash(world.disk.killed())
        await world.send(0, "q/0/0/0/l", [b"a", b"b", b"c"])
        assert world.bodies(0) == [b"a", b"b", b"c"]

    run_one(case)


def test_a_mark_that_speaks_of_other_messages_than_its_batch_is_refused() -> None:
    async def case(world: World) -> None:
        await world.send(0, "q/0/0/0/l", [b"a"])
        answer = await world.send(0, "q/0/0/1/l/3/00000000/00000000", [b"b", b"c"])
        assert (answer.code, world.bodies(0)) == (ResponseCode.MESSAGE_ILLEGAL, [b"a"])
        assert "speaks of 3 messages, the batch has 2" in (answer.remark or "")

    run_one(case)


@pytest.mark.parametrize(
    ("queue", "mark", "own", "why"),
    [
        (0, "not a mark", {}, "__RL_SEQ is 'not a mark'"),
        (-1, "q/0/0/0/l", {}, "names no queue"),
        (0, None, {"__RL_SEQ": "q/0/0/0/l"}, "a message of a batch has the property __RL_SEQ"),
        (0, "q/0/0/0/l", {"__RL_SEQ": "q/9/0/0/l"}, "a message of a batch has the property __RL_SEQ"),
    ],
)
def test_what_could_not_be_checked_is_refused(queue: int, mark: str | None, own: dict[str, str], why: str) -> None:
    async def case(world: World) -> None:
        answer = await world.send(queue, mark, [b"a"], **own)
        assert (answer.code, world.bodies(0)) == (ResponseCode.MESSAGE_ILLEGAL, [])
        assert why in (answer.remark or "")

    run_one(case)


def test_a_single_message_loses_the_mark_it_was_copied_with() -> None:
    async def case(world: World) -> None:
        header = SendHeaderV2(
            producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
            born_timestamp=1, flag=0, properties="__RL_SEQ\x01q/9/0/0/l\x02KEYS\x01k\x02",
        )  # fmt: skip
        command = Command.request(RequestCode.SEND_MESSAGE_V2, header, b"copy")
        command.opaque = 77
        world.peer.transport.write(b"".join(bytes(part) for part in encode_command(command)))
        await world.clock.settle()
        assert world.peer.answers[77].code == ResponseCode.SUCCESS
        got = world.broker.store.get("T", 0, 0, 1, 1 << 20)
        (message,) = decode_records(bytes(got.slices[0]))
        assert "__RL_SEQ" not in message.properties and message.properties["KEYS"] == "k"
        assert len(world.broker.sending.sequences) == 0

    run_one(case)


def test_a_broker_without_marked_batches_keeps_no_table() -> None:
    async def case(world: World) -> None:
        path = Path("/store/config/producerSequences.json")
        await world.send(0, None, [b"a"])
        await world.clock.run_for(10_000)
        await world.crash(world.disk.killed())
        assert world.broker.sending.sequences.log_offset is None and not world.disk.exists(path)
        await world.send(0, "q/0/0/0/l", [b"b"])
        assert world.disk.exists(path), "else a killed broker would not look for this mark"

    run_one(case)


def test_without_the_table_on_disk_nothing_is_taken() -> None:
    async def case(world: World) -> None:
        world.disk.capacity = world.disk.used
        answer = await world.send(0, "q/0/0/0/l", [b"a"])
        assert (answer.code, world.bodies(0)) == (ResponseCode.SERVICE_NOT_AVAILABLE, [])
        world.disk.capacity = 1 << 40
        answer = await world.send(0, "q/0/0/0/l", [b"a"])
        assert (answer.code, world.bodies(0)) == (ResponseCode.SUCCESS, [b"a"])

    run_one(case)
