"""The search for ends before a start, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.transaction.half import read_half
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.recovery import Recovery
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT
from rocketlake.store.config import StoreConfig
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
START = QueueOffset(0), QueueOffset(0)


class Room:
    """A store with files of 1 MiB, and the ledger of a start."""

    def __init__(self) -> None:
        self.clock, self.plan, self.reads = ManualClock(), FaultPlan(), HandWorker()

        def workers(name: str) -> Worker:
            return self.reads if name == "store-reads" else InlineWorker(name)

        config = StoreConfig(commit_log_file_bytes=1 << 20, index_slots=10, index_entries=100)
        files = FaultyFiles(MemoryFiles(), self.plan)
        self.store = MessageStore(Path("/s"), config, files=files, clock=self.clock, workers=workers)
        self.ledger = HalfLedger()
        live = LiveConfig(BrokerConfig(broker_name="b"))
        self.ops = TransactionOps(self.store, self.ledger, live, self.clock, lambda: encode_host("10.0.0.1", 1))

    def put(self, topic: str, body: bytes, properties: dict[str, str], flag: int = 0, prepared: int = 0) -> int:
        message = PutMessage(topic, 0, body, property_text.encode(properties), sys_flag=flag)
        message.prepared_transaction_offset = prepared
        result = self.store.put(message)
        assert result.status is PutStatus.OK
        return result.physical_offset

    def half(self, key: str) -> StoredMessage:
        place = self.put(HALF, b"h", {"REAL_TOPIC": "T", "REAL_QID": "0", "TRAN_MSG": "true", "UNIQ_KEY": key})
        half = read_half(self.store, place)
        assert half is not None
        return half

    def traffic(self, kilobytes: int, size: int = 30) -> None:
        for _ in range(kilobytes // size):
            self.put("T", bytes(size << 10), {})

    def recovery(self) -> Recovery:
        return Recovery(self.store, START, self.ledger, self.ops)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    await room.store.start()
    yield room
    await room.store.stop()


def steps(recovery: Recovery) -> int:
    """How many pieces there were."""
    count = 1
    while not recovery.step():
        count += 1
    return count


async def test_ends_are_found_behind_long_records_and_file_after_file(room: Room) -> None:
    open_half, committed = room.half("open"), room.half("committed")
    room.traffic(2500)
    room.traffic(700, size=700)
    room.put("T", b"h", {"UNIQ_KEY": "committed"}, TRANSACTION_COMMIT, committed.physical_offset)
    assert steps(room.recovery()) > 12  # no piece is longer than a record, or 256 KiB
    assert (room.ledger.is_known, room.ledger.standing(open_half)) == (True, Standing.OPEN)
    assert room.ledger.standing(committed) is Standing.COMMITTED


async def test_a_retry_of_another_message_ends_no_transaction(room: Room) -> None:
    """It keeps the commit bits, and names place 0 of the log, where a half message may lie."""
    first, other = room.half("first"), room.half("other")
    assert first.physical_offset == 0
    room.put("T", b"h", {"UNIQ_KEY": "other"}, TRANSACTION_COMMIT, other.physical_offset)
    room.put("%RETRY%G", b"h", {"UNIQ_KEY": "other"}, TRANSACTION_COMMIT)
    steps(room.recovery())
    assert (room.ledger.standing(first), room.ledger.standing(other)) == (Standing.OPEN, Standing.COMMITTED)


@pytest.mark.parametrize("key", ["first", ""])
async def test_the_half_message_at_the_first_place_of_the_log_has_its_end(room: Room, key: str) -> None:
    first = room.half(key)
    room.put("T", b"h", {"UNIQ_KEY": key}, TRANSACTION_COMMIT)
    room.put("%RETRY%G", b"x", {"UNIQ_KEY": "other"}, TRANSACTION_COMMIT)
    steps(room.recovery())
    assert (first.physical_offset, room.ledger.standing(first)) == (0, Standing.COMMITTED)


@pytest.mark.parametrize(("damaged", "standing"), [(b"", Standing.ENDED), (b"1,", Standing.OPEN)])
async def test_a_damaged_op_message_ends_no_other_transaction(room: Room, damaged: bytes, standing: Standing) -> None:
    halves = [room.half("rolled back"), room.half("open")]
    place = room.put(OP, b"0,", {"TAGS": "d"})
    at = room.store.read_record(place).tobytes().index(b"0,")
    log = next(iter(room.store.log.list.files))
    log.file.pwrite(damaged, place + at)
    steps(room.recovery())
    assert [room.ledger.standing(half) for half in halves] == [standing, Standing.OPEN]


async def test_the_log_before_the_first_half_message_that_may_be_open_is_not_read(room: Room) -> None:
    room.put(OP, b"", {"TAGS": "d", "__RL_ENDS": "all"})
    room.traffic(2500)
    room.half("open")
    assert steps(room.recovery()) < 11


async def test_a_piece_that_is_on_disk_only_is_brought_by_a_worker(room: Room) -> None:
    half = room.half("committed")
    room.put("T", b"h", {"UNIQ_KEY": "committed"}, TRANSACTION_COMMIT, half.physical_offset)
    recovery = room.recovery()
    for _ in range(3):
        room.plan.add(Fault("is_resident", times=1, error=None))

    async def search() -> None:
        while not await room.store.read(recovery.step):
            pass

    task = asyncio.create_task(search())
    await room.clock.settle()
    assert not room.ledger.is_known
    while not task.done():
        room.reads.run_all()
        await room.clock.settle()
    assert room.ledger.standing(half) is Standing.COMMITTED


async def test_a_step_that_lacks_bytes_is_made_again(room: Room) -> None:
    half = room.half("open")
    recovery = room.recovery()
    room.plan.add(Fault("is_resident", times=1, error=None))
    with room.store.disk_wait.none(), pytest.raises(NotInMemory):
        steps(recovery)
    assert steps(recovery) and room.ledger.standing(half) is Standing.OPEN
