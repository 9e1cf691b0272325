"""No call of the disk seam that may block runs on the loop while a broker serves.

Every call is told on the thread that makes it, before it is made (base/disk/watched.py). A broad workload runs over
real sockets and files; of the calls made on the loop's thread only those of ALLOWED may be left. A look at the log
through its mapping is no call: each such look on the loop must ask first whether the bytes are in memory.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.watched import WatchedFiles
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model import sys_flag
from rocketlake.model.message import Message
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_group import (
    BrokerConsumeStatsHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    CorrectionOffsetHeader,
)
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader, DeleteTopicHeader, TopicStatsHeader
from rocketlake.protocol.headers.client import ResetOffsetHeader
from rocketlake.protocol.headers.offset import (
    EarliestTimeHeader,
    MinOffsetHeader,
    QueryOffsetHeader,
    SearchOffsetHeader,
    UpdateOffsetHeader,
)
from rocketlake.protocol.headers.query import QueryConsumeQueueHeader, QueryMessageHeader, ViewMessageHeader
from rocketlake.protocol.headers.send import SendBackHeader
from rocketlake.protocol.headers.transaction import EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.mapped_file import MappedFile
from tests.requests import pull_header, send_header

STORE = StoreConfig(
    commit_log_file_bytes=128 * 1024,
    consume_queue_file_bytes=2_000,
    index_slots=100,
    index_entries=400,
    queue_flush_thorough_interval_ms=500,
    flush_interval_ms=100,
    clean_interval_ms=300,
    file_reserved_hours=0,
    delete_when=";".join(f"{hour:02}" for hour in range(24)),
)
ALLOWED = {
    "pwrite": "goes into the page cache; the kernel may block it only when too much is dirty (sync_flush waits for it)",
}
"""Call -> why the loop may make it."""
FAR_MS = 2**42
_BELOW = ("/disk/watched.py", "/disk/faulty.py", "/store/commit_log.py")


class World:
    """A broker whose disk tells of each call, and one client."""

    def __init__(self, folder: Path) -> None:
        self.loop_thread = threading.get_ident()
        self.watches = False
        self.seen: dict[tuple[str, str], str] = {}
        self.files = FaultyFiles(WatchedFiles(PosixFiles(), self._told))
        config = BrokerConfig(broker_name="b", listen_port=0, store_root=folder, transaction_op_interval_ms=50)
        self.broker = Broker(config, STORE, files=self.files)
        self.net = NetClient()
        self._check_look = self.broker.store.log.before_look
        self.broker.store.log.before_look = self._looked

    def _looked(self, mapped: MappedFile, position: int, size: int) -> None:
        if self.broker.store.disk_wait.is_allowed:
            self._told("look at the log", mapped.path)
        self._check_look(mapped, position, size)

    def _told(self, call: str, path: Path) -> None:
        if self.watches and threading.get_ident() == self.loop_thread and call not in ALLOWED:
            stack = [frame for frame in traceback.extract_stack() if "/rocketlake/" in frame.filename]
            asked = [frame for frame in stack if not frame.filename.endswith(_BELOW)]
            where = f"{asked[-1].filename.rpartition('/rocketlake/')[2]}:{asked[-1].name}" if asked else "?"
            self.seen.setdefault((call, where), f"{path}\n" + "".join(traceback.format_list(stack[-9:])))

    async def start(self) -> None:
        await self.broker.start()
        self.watches = True

    async def stop(self) -> None:
        self.watches = False
        await self.net.close()
        await self.broker.stop()

    async def ask(self, code: int, header: Header | None = None, body: bytes | None = None) -> Command:
        return await self.net.invoke(self.broker.address, Command.request(code, header, body), 20_000)

    async def send(self, topic: str, number: int, *, properties: str = "", **fields: object) -> Command:
        properties = properties or f"KEYS\x01k{number % 7} n{number}\x02UNIQ_KEY\x01{number:032X}\x02"
        header = send_header(topic, number % 2, properties, **fields)
        return await self.ask(Code.SEND_MESSAGE_V2, header, b"%d " % number * 75)

    async def sends(self, topic: str, count: int, first: int = 0) -> list[Command]:
        answers = await asyncio.gather(*[self.send(topic, first + number) for number in range(count)])
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        return answers

    async def pull(self, topic: str, queue_id: int, offset: int, wait_ms: int = 0) -> Command:
        header = pull_header(topic, queue_id, offset, wait_ms)
        return await self.ask(Code.PULL_MESSAGE, header)

    async def pull_all(self, topic: str, queue_id: int) -> int:
        offset = found = 0
        while offset < self.broker.store.max_offset(topic, queue_id):
            answer = await self.pull(topic, queue_id, offset)
            found += len(decode_records(answer.body_bytes))
            following = int((answer.fields or {})["nextBeginOffset"])
            assert following > offset
            offset = following
        return found

    def cool(self, times: int = 12) -> None:
        """The next looks find nothing in memory; each of a query lies on pages of its own."""
        for call in ("pread_now", "is_resident"):
            self.files.plan.add(Fault(call, times=times, error=None))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.start()
    yield world
    await world.stop()


def offset_of(answer: Command) -> int:
    return parse_offset_message_id((answer.fields or {})["msgId"])[2]


async def transactions(world: World, cold: bool) -> None:
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01{int(cold):032X}\x02"
    half = await world.send("A", 0, properties=properties, sys_flag=sys_flag.TRANSACTION_PREPARED)
    assert half.code == ResponseCode.SUCCESS
    if cold:
        world.cool()
    end = EndTransactionHeader(
        producer_group="p",
        tran_state_table_offset=int((half.fields or {})["queueOffset"]),
        commit_log_offset=offset_of(half),
        commit_or_rollback=sys_flag.TRANSACTION_COMMIT,
    )
    first, again = await asyncio.gather(world.ask(Code.END_TRANSACTION, end), world.ask(Code.END_TRANSACTION, end))
    assert (first.code, again.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)


async def reads(world: World, sent: list[Command], cold: bool) -> None:
    last = len(sent) - 1
    key = QueryMessageHeader(topic="A", key=f"n{last}", max_num=32, begin_timestamp=0, end_timestamp=FAR_MS)
    asked: list[tuple[int, Header]] = [
        (Code.QUERY_MESSAGE, key),
        (Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=offset_of(sent[-1]))),
        (Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader(topic="A", queue_id=0, timestamp=1)),
        (Code.GET_EARLIEST_MSG_STORETIME, EarliestTimeHeader(topic="A", queue_id=0)),
        (Code.CONSUMER_SEND_MSG_BACK, SendBackHeader(offset=offset_of(sent[-1]), group="g", delay_level=1)),
    ]
    for code, header in asked:
        if cold:
            world.cool()
        answer = await world.ask(code, header)
        assert answer.code == ResponseCode.SUCCESS, (code, answer.remark)
    world.files.plan.clear()


async def administration(world: World, cold: bool) -> None:
    """What administrators read of messages that may be old."""
    offset = UpdateOffsetHeader(consumer_group="g", topic="A", queue_id=0, commit_offset=40)
    await world.ask(Code.UPDATE_CONSUMER_OFFSET, offset)
    reset = ResetOffsetHeader(topic="A", group="g", timestamp=1, is_force=True)
    asked: list[tuple[int, Header | None]] = [
        (Code.GET_BROKER_RUNTIME_INFO, None),
        (Code.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic="A")),
        (Code.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group="g", topic="A", topic_list="A")),
        (Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader(is_order=False)),
        (Code.QUERY_CONSUME_TIME_SPAN, ConsumeTimeSpanHeader(topic="A", group="g")),
        (Code.QUERY_CORRECTION_OFFSET, CorrectionOffsetHeader(compare_group="g", topic="A")),
        (Code.QUERY_CONSUME_QUEUE, QueryConsumeQueueHeader(topic="A", queue_id=0, index=1, count=5)),
        (Code.GET_MIN_OFFSET, MinOffsetHeader(topic="A", queue_id=0)),
        (Code.QUERY_CONSUMER_OFFSET, QueryOffsetHeader(consumer_group="new", topic="A", queue_id=0)),
        (Code.INVOKE_BROKER_TO_RESET_OFFSET, reset),
        (
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
            structs.replace(reset, queue_id=0, offset=world.broker.store.max_offset("A", 0)),
        ),
    ]
    answered = {ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}
    for code, header in asked:
        if cold:
            world.cool()
        answer = await world.ask(code, header)
        assert answer.code in answered, (code, answer.remark)
    world.files.plan.clear()


async def test_no_blocking_call_of_the_disk_runs_on_the_loop_while_a_broker_serves(world: World) -> None:
    for name in ("A", "B", "gone"):
        header = CreateTopicHeader(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=2,
            write_queue_nums=2,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        assert (await world.ask(Code.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
    held = asyncio.create_task(world.pull("B", 0, 0, wait_ms=20_000))
    sent: list[Command] = []
    for turn in range(6):  # rolls of the log, of the queues and of the index
        sent += await world.sends("A", 150, 150 * turn)
        await asyncio.sleep(0)
    batch = encode_batch([Message("A", b"one"), Message("A", b"two")])
    assert (await world.ask(Code.SEND_BATCH_MESSAGE, send_header("A", batch=True), batch)).code == ResponseCode.SUCCESS
    await world.sends("B", 20)
    assert len(decode_records((await held).body_bytes)) >= 1
    await world.sends("gone", 10)
    await transactions(world, cold=False)
    await reads(world, sent, cold=False)
    await administration(world, cold=False)
    assert await world.pull_all("B", 1) == 10
    # Cold.
    await transactions(world, cold=True)
    await reads(world, sent, cold=True)
    await administration(world, cold=True)
    world.cool(40)
    assert await world.pull_all("B", 0) == 10
    world.files.plan.clear()
    # Deletion, and the topic made anew at once.
    assert (await world.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="gone"))).code == ResponseCode.SUCCESS
    await world.sends("gone", 4)
    assert await world.pull_all("gone", 0) == 2
    # Expiry.
    while world.broker.store.min_physical_offset == 0:  # noqa: ASYNC110 (bounded by the test's timeout)
        await asyncio.sleep(0.05)
    await administration(world, cold=True)
    await world.sends("A", 150, 2000)
    await asyncio.sleep(1.2)  # some rounds of every background duty
    assert await world.pull_all("B", 0) >= 0
    text = "\n".join(f"{call} at {where}\n{stack}" for (call, where), stack in sorted(world.seen.items()))
    assert not world.seen, f"{sorted(world.seen)}\n{text}"
