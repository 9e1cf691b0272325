"""The message of a transaction that is committed: its copy, the note of its end, the answer."""

from __future__ import annotations

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.broker.sends.committed import CommittedSends
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.transaction.half import read_half
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.codec.host import encode_host
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import HALF_TOPIC, TopicConfig
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.store.results import PutMessage
from tests.unit.broker.room_world import BROKER, RoomWorld


class Room(RoomWorld):
    """One half message, meant for a queue of T."""

    def __init__(self, flush_disk_type: str = "ASYNC_FLUSH") -> None:
        super().__init__(flush_disk_type)
        self.ledger = HalfLedger()
        self.ledger.is_known = True
        self.ops = TransactionOps(self.store, self.ledger, self.config, self.clock, lambda: encode_host(*BROKER))
        self.committed = CommittedSends(
            store=self.store,
            intake=self.intake,
            topics=self.topics,
            readable_queue=ReadableQueue(self.topics, self.clock),
            ledger=self.ledger,
            ops=self.ops,
        )

    def half(self, queue_id: int = 3) -> StoredMessage:
        properties = b"REAL_TOPIC\x01T\x02REAL_QID\x01%d\x02UNIQ_KEY\x01k\x02" % queue_id
        flag = sys_flag.TRANSACTION_PREPARED
        put = self.store.put(PutMessage(HALF_TOPIC, 0, b"x", properties, sys_flag=flag))
        half = read_half(self.store, put.physical_offset)
        assert half is not None
        return half

    def ended(self) -> list[bytes]:
        """What the op messages say: the queue offsets of the half messages that are ended."""
        self.ops.write()
        return [message.body for message in self.stored("RMQ_SYS_TRANS_OP_HALF_TOPIC")]


@pytest.mark.parametrize(("queues", "goes_to"), [(4, 3), (2, 1)])
async def test_a_commit_puts_the_message_into_a_queue_that_is_read_and_notes_the_end(queues: int, goes_to: int) -> None:
    async with Room() as room:
        room.topics.put(TopicConfig("T", read_queues=queues, write_queues=queues))
        half = room.half()
        answer = await room.ask(lambda request: room.committed.put(request, half))
        assert answer.result().code == Code.SUCCESS
        (message,) = room.stored("T", goes_to)
        assert (message.body, message.prepared_transaction_offset) == (b"x", half.physical_offset)
        assert sys_flag.transaction_type(message.sys_flag) == sys_flag.TRANSACTION_COMMIT
        assert room.ended() == [b"0,"]


@pytest.mark.parametrize(("why", "code"), [("deleted", Code.TOPIC_NOT_EXIST), ("disk", Code.SERVICE_NOT_AVAILABLE)])
async def test_what_cannot_be_put_is_not_ended(why: str, code: int) -> None:
    async with Room() as room:
        half = room.half()
        if why == "deleted":
            room.topics.delete("T")
        else:
            room.plan.add(Fault("pwrite", "commitlog"))
        end = room.store.max_physical_offset
        answer = await room.ask(lambda request: room.committed.put(request, half))
        assert answer.result().code == code and answer.result().remark
        assert room.store.max_physical_offset == end and not room.ops._waiting


async def test_a_commit_and_its_repetition_are_answered_when_the_disk_has_the_message() -> None:
    async with Room("SYNC_FLUSH") as room:
        half = room.half()
        answers = [
            await room.ask(lambda request: room.committed.put(request, half)),
            await room.ask(lambda request: room.committed.answer_again(request)),
        ]
        assert [answer.done() for answer in answers] == [False, False]
        room.flush.run_all()
        await room.clock.settle()
        assert [answer.result().code for answer in answers] == [Code.SUCCESS, Code.SUCCESS]
        assert len(room.stored("T", 3)) == 1
