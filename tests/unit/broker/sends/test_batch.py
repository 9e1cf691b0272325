"""A batch that was let in: what is refused as a whole, and the three ways it goes."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from rocketlake.broker.intake.large_batches import LARGE, LargeBatches
from rocketlake.broker.intake.sequenced_puts import SequencedPuts
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.broker.sends.batch import BatchSends
from rocketlake.broker.sends.incoming import Incoming
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model import sys_flag
from rocketlake.model.message import Message
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode as Code
from tests.requests import send_header
from tests.unit.broker.room_world import BROKER, RoomWorld


def body_of(count: int, first: int = 0, **properties: str) -> bytes:
    return encode_batch(
        Message.with_properties("T", b"%d" % number, properties) for number in range(first, first + count)
    )


class Room(RoomWorld):
    def __init__(self) -> None:
        super().__init__()
        sequences = ProducerSequences(
            Path("/t/sequences.json"), self.files, self.clock, self._log_ends, producers_max=10, keep_ms=10_000
        )
        sequences.opened()
        self.saver.add(sequences)
        self.batches = BatchSends(
            Incoming(self.config, self.topics, lambda: BROKER),
            self.intake,
            SequencedPuts(self.intake, sequences, self.saver, lambda: self.store.max_physical_offset),
            LargeBatches(self.config, self.turns, self.clock),
            SendAnswers(self.config, self.intake, lambda: BROKER),
        )

    def _log_ends(self) -> LogEnds:
        return LogEnds(self.store.max_physical_offset, self.store.flushed_offset)

    async def send(self, body: bytes, **fields: Any) -> Command:
        header = send_header(batch=True, **fields)
        task = await self.ask(lambda request: self.batches.put(request, header), body)
        while not task.done():
            await self.clock.run_for(10)
        return task.result()


@pytest.mark.parametrize(
    ("body", "fields", "code"),
    [
        (body_of(3), {}, Code.SUCCESS),
        (body_of(3), {"queue_id": 9}, Code.INVALID_PARAMETER),
        (body_of(3), {"topic": "gone"}, Code.TOPIC_NOT_EXIST),
        (body_of(3), {"topic": "%RETRY%g"}, Code.MESSAGE_ILLEGAL),
        (body_of(3), {"properties": "TRAN_MSG\x01true\x02"}, Code.MESSAGE_ILLEGAL),
        (body_of(3), {"properties": "DELAY\x013\x02"}, Code.MESSAGE_ILLEGAL),
        (encode_batch([Message("T", zlib.compress(b"x")), Message("T", b"x")]), {"sys_flag": 1}, Code.MESSAGE_ILLEGAL),
        (encode_batch([Message("T", zlib.compress(b"x"))]), {"sys_flag": 0x201}, Code.MESSAGE_ILLEGAL),
        (body_of(3, DELAY="3"), {}, Code.MESSAGE_ILLEGAL),
        (body_of(3, TRAN_MSG="true"), {}, Code.MESSAGE_ILLEGAL),
        (body_of(3)[:-1], {}, Code.MESSAGE_ILLEGAL),
        (body_of(3), {"properties": "__RL_SEQ\x01no mark\x02"}, Code.MESSAGE_ILLEGAL),
        (body_of(3), {"properties": "__RL_SEQ\x01q/0/0/0/l\x02", "queue_id": -1}, Code.MESSAGE_ILLEGAL),
        (body_of(5000), {"properties": "__RL_SEQ\x01q/0/0/0/l\x02"}, Code.MESSAGE_ILLEGAL),
        (body_of(LARGE + 1, DELAY="3"), {}, Code.MESSAGE_ILLEGAL),
        (body_of(LARGE + 1), {"sys_flag": sys_flag.COMPRESSED}, Code.MESSAGE_ILLEGAL),
    ],
)
async def test_a_batch_is_taken_as_a_whole_or_not_at_all(body: bytes, fields: dict[str, Any], code: int) -> None:
    async with Room() as room:
        room.topics.put(TopicConfig("%RETRY%g"))
        answer = await room.send(body, **fields)
        assert answer.code == code, answer.remark
        assert len(room.stored()) == (3 if code == Code.SUCCESS else 0)
        assert code == Code.SUCCESS or room.store.max_physical_offset == 0


@pytest.mark.parametrize("mark", ["", "__RL_SEQ\x01q/0/0/0/l\x02"])
async def test_a_batch_without_a_compressed_body_is_stored_without_the_mark(mark: str) -> None:
    async with Room() as room:
        assert (await room.send(body_of(3), sys_flag=sys_flag.COMPRESSED, properties=mark)).code == Code.SUCCESS
        assert (await room.send(encode_batch([Message("T", zlib.compress(b"3"))]), sys_flag=1)).code == Code.SUCCESS
        found = [(message.body, message.sys_flag & sys_flag.COMPRESSED) for message in room.stored()]
        assert found == [(b"0", 0), (b"1", 0), (b"2", 0), (b"3", 1)]


async def test_a_batch_that_comes_again_is_stored_once_and_the_answer_tells_what_was_known() -> None:
    async with Room() as room:
        known = []
        for first, count in ((0, 3), (0, 3), (0, 5)):
            answer = await room.send(body_of(count, first), properties=f"__RL_SEQ\x01q/0/0/{first}/l\x02")
            assert answer.code == Code.SUCCESS, answer.remark
            known.append(answer.header(SendReplyHeader).known)
        assert known == [None, 3, 3]
        assert [message.body for message in room.stored()] == [b"%d" % number for number in range(5)]


async def test_a_large_batch_is_stored_in_order_with_an_id_for_each_message() -> None:
    async with Room() as room:
        answer = await room.send(body_of(LARGE + 1))
        assert answer.code == Code.SUCCESS, answer.remark
        ids = answer.header(SendReplyHeader).msg_id.split(",")
        assert (len(set(ids)), room.store.max_offset("T", 0)) == (LARGE + 1, LARGE + 1)
        assert [message.body for message in room.stored()][:3] == [b"0", b"1", b"2"]


async def test_the_messages_of_a_batch_keep_their_own_keys() -> None:
    async with Room() as room:
        answer = await room.send(body_of(2, UNIQ_KEY="own"), properties="UNIQ_KEY\x01of the batch\x02")
        assert answer.header(SendReplyHeader).transaction_id == "of the batch"
        assert [message.properties["UNIQ_KEY"] for message in room.stored()] == ["own", "own"]
