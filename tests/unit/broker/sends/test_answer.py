"""The answer to a send: its ids and fields, and when it is given."""

from __future__ import annotations

import pytest

from rocketlake.broker.intake.sequenced_puts import Known
from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.net.request import Reply
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.store.results import PutMessage, PutResult, PutStatus
from tests.unit.broker.room_world import BROKER, RoomWorld

IDS = [offset_message_id(*BROKER, offset) for offset in (100, 200)]
NO_ID = "0" * 32
SINGLE = PutResult(PutStatus.OK, PhysicalOffset(100), queue_offset=QueueOffset(7))
BATCH = PutResult(PutStatus.OK, PhysicalOffset(100), queue_offset=QueueOffset(7), count=2, offsets=(100, 200))
NOTHING_NEW = PutResult(PutStatus.OK, count=0)


@pytest.mark.parametrize(
    ("result", "known", "ids", "queue_offset", "told"),
    [
        (SINGLE, Known(0, 0), IDS[0], 7, (None, None)),
        (BATCH, Known(0, 0), ",".join(IDS), 7, (None, None)),
        (BATCH, Known(3, 5), ",".join(IDS), 7, (3, 5)),
        (NOTHING_NEW, Known(3, 3), NO_ID, -1, (3, 3)),
    ],
)
async def test_an_answer_tells_ids_place_and_what_was_known(
    result: PutResult, known: Known, ids: str, queue_offset: int, told: tuple[int | None, int | None]
) -> None:
    async with RoomWorld() as world:
        reply = SendAnswers(world.config, world.intake, lambda: BROKER).answer(PutStatus.OK, result, 3, "key", known)
        header = reply.header
        assert isinstance(header, SendReplyHeader) and reply.code == Code.SUCCESS
        assert (header.msg_id, header.queue_id, header.queue_offset, header.transaction_id) == (
            ids, 3, queue_offset, "key",
        )  # fmt: skip
        assert ((header.known, header.next_number), header.region, header.trace_on) == (told, "R", True)


@pytest.mark.parametrize(
    ("status", "code", "has_place"),
    [
        (PutStatus.OK, Code.SUCCESS, True),
        (PutStatus.FLUSH_DISK_TIMEOUT, Code.FLUSH_DISK_TIMEOUT, True),
        (PutStatus.FLUSH_SLAVE_TIMEOUT, Code.FLUSH_SLAVE_TIMEOUT, True),
        (PutStatus.SERVICE_NOT_AVAILABLE, Code.SERVICE_NOT_AVAILABLE, False),
        (PutStatus.DISK_FULL, Code.SERVICE_NOT_AVAILABLE, False),
        (PutStatus.POOL_BUSY, Code.SYSTEM_BUSY, False),
        (PutStatus.CREATE_FILE_FAILED, Code.SYSTEM_ERROR, False),
        (PutStatus.MESSAGE_ILLEGAL, Code.MESSAGE_ILLEGAL, False),
        (PutStatus.PROPERTIES_TOO_LONG, Code.MESSAGE_ILLEGAL, False),
        (PutStatus.UNKNOWN, Code.SYSTEM_ERROR, False),
    ],
)
async def test_each_status_has_a_code_and_a_place_if_the_message_is_stored(
    status: PutStatus, code: int, has_place: bool
) -> None:
    async with RoomWorld() as world:
        reply = SendAnswers(world.config, world.intake, lambda: BROKER).answer(status, SINGLE, 3, "key")
        assert (reply.code, reply.header is not None) == (code, has_place)
        assert status is PutStatus.OK or status.name in (reply.remark or "")


@pytest.mark.parametrize(
    ("flush", "wait", "waits"),
    [("ASYNC_FLUSH", "true", False), ("SYNC_FLUSH", "true", True), ("SYNC_FLUSH", "false", False)],
)
async def test_an_answer_waits_for_the_disk_if_broker_and_sender_ask_for_that(
    flush: str, wait: str, waits: bool
) -> None:
    async with RoomWorld(flush) as world:
        answers = SendAnswers(world.config, world.intake, lambda: BROKER)
        result = world.intake.put(PutMessage("T", 0, b"x"), {})
        task = await world.ask(lambda request: answers.when_durable(request, result, {"WAIT": wait}, 0, "key"))
        assert (task.done(), world.intake.waiting) == (not waits, int(waits))
        world.flush.run_all()
        await world.clock.settle()
        assert (task.result().code, world.intake.waiting) == (Code.SUCCESS, 0)


async def test_what_was_not_stored_is_told_at_once() -> None:
    async with RoomWorld("SYNC_FLUSH") as world:
        answers = SendAnswers(world.config, world.intake, lambda: BROKER)
        full = PutResult(PutStatus.DISK_FULL, reason="3 bytes are free")
        task = await world.ask(lambda request: answers.when_durable(request, full, {}, 0, None))
        assert (task.result().code, task.result().remark) == (
            Code.SERVICE_NOT_AVAILABLE,
            "DISK_FULL: 3 bytes are free",
        )
        assert isinstance(answers.answer(PutStatus.DISK_FULL, full, 0, None), Reply)
