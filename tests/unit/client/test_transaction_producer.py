"""Transactions against a scripted broker: the steps, what goes wrong in them, and questions of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.config import ProducerConfig
from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer
from rocketlake.codec import property_text
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_id import offset_message_id
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.unit.client.records import stored_record

COMMIT, ROLLBACK, UNKNOWN = TransactionEnd.COMMIT, TransactionEnd.ROLLBACK, TransactionEnd.UNKNOWN


class Stage:
    """A transaction producer of group "g" and one broker that remembers ends."""

    def __init__(self, peers: Any) -> None:
        self.peers = peers
        self.ends: list[tuple[EndTransactionHeader, str | None]] = []
        self.ended = asyncio.Event()
        self.asked: list[StoredMessage] = []
        self.answer: Callable[[], TransactionEnd | None] = lambda: COMMIT
        self.code = ResponseCode.SUCCESS

    async def start(self, make_broker: Any, **options: Any) -> None:
        self.broker = await make_broker("a", {RequestCode.END_TRANSACTION: self._end})
        self.broker.answer_send = self._stored
        self.peers.route("T", self.broker, queues=1)
        instance = self.peers.client()
        await instance.start()
        self.producer = TransactionProducer("g", check=self.check, instance=instance, **options)
        await self.producer.start()

    def _stored(self, request: Request) -> Reply:
        place = offset_message_id("10.0.0.9", 10911, 4711)
        return Reply(self.code, SendReplyHeader(msg_id=place, queue_id=0, queue_offset=17, transaction_id="tx"))

    def _end(self, request: Request) -> Reply:
        self.ends.append((request.header(EndTransactionHeader), request.command.remark))
        self.ended.set()
        return Reply()

    async def check(self, message: StoredMessage) -> TransactionEnd | None:
        self.asked.append(message)
        return self.answer()

    async def next_end(self) -> tuple[EndTransactionHeader, str | None]:
        await asyncio.wait_for(self.ended.wait(), 5)
        self.ended.clear()
        return self.ends[-1]

    async def ask(self, group: str = "g") -> None:
        """The broker asks about a half message."""
        properties = property_text.encode({"PGROUP": group, "UNIQ_KEY": "u1", "TRAN_MSG": "true"})
        record = stored_record(b"body", properties, queue_id=3, queue_offset=21, physical_offset=99)
        question = CheckTransactionHeader(
            tran_state_table_offset=21, commit_log_offset=99, transaction_id="u1", msg_id="u1"
        )
        await self.broker.ask_client(RequestCode.CHECK_TRANSACTION_STATE, question, record)


@pytest.fixture
async def stage(peers: Any, make_broker: Any) -> AsyncIterator[Stage]:
    stage = Stage(peers)
    await stage.start(make_broker, topics=["T"], config=ProducerConfig(retries=0))
    yield stage
    await stage.producer.stop()


async def known_to_the_broker(stage: Stage) -> None:
    async with asyncio.timeout(5):
        while stage.broker.asker is None:  # noqa: ASYNC110  (the client decides when it sends a heartbeat)
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("answer", "end"), [(COMMIT, COMMIT), (ROLLBACK, ROLLBACK), (UNKNOWN, UNKNOWN), (None, UNKNOWN)]
)
async def test_what_the_local_function_returns_goes_to_the_broker_that_has_the_half_message(
    stage: Stage, answer: TransactionEnd | None, end: TransactionEnd
) -> None:
    seen: list[Message] = []

    def local(message: Message) -> TransactionEnd | None:
        seen.append(message)
        return answer

    result = await stage.producer.send_in_transaction(Message("T", b"x", tags="A"), local)
    header, remark = await stage.next_end()
    assert (result.end, result.error, result.sent.queue_offset) == (end, None, 17)
    assert (header.commit_or_rollback, header.from_transaction_check, remark) == (end.value, False, None)
    assert (header.producer_group, header.tran_state_table_offset, header.commit_log_offset) == ("g", 17, 4711)
    assert (header.msg_id, header.transaction_id) == (result.sent.message_id, "tx")
    assert (seen[0].unique_key, seen[0].tags) == (result.sent.message_id, "A")
    sent = property_text.decode(stage.broker.sent[0][0].properties.encode())
    assert (sent["TRAN_MSG"], sent["PGROUP"], sent["TAGS"]) == ("true", "g", "A")


async def test_the_message_itself_is_left_alone(stage: Stage) -> None:
    message = Message("T", b"x")
    await stage.producer.send_in_transaction(message, lambda _: COMMIT)
    assert message == Message("T", b"x")


async def test_a_transaction_takes_the_message_before_its_task_begins(stage: Stage) -> None:
    message, seen = Message("T", b"0"), list[bytes]()

    def local(half: Message) -> TransactionEnd:
        seen.append(half.body)
        return COMMIT

    first = asyncio.create_task(stage.producer.send_in_transaction(message, local))
    message.body = b"1"
    await first
    await stage.producer.send_in_transaction(message, local)
    assert seen == [body for _, body in stage.broker.sent] == [b"0", b"1"]


@pytest.mark.parametrize("what", ["check", "local", "message"])
async def test_what_is_no_function_and_no_message_is_refused(stage: Stage, what: str) -> None:
    local: Any = None if what == "local" else lambda message: COMMIT
    with pytest.raises(UsageError, match=r"not NoneType|is a Message, not str"):
        if what == "check":
            TransactionProducer("g", check=None)  # type: ignore[arg-type]
        await stage.producer.send_in_transaction("T" if what == "message" else Message("T", b"x"), local)  # type: ignore[arg-type]
    assert stage.broker.sent == []


async def test_a_local_function_that_raises_leaves_the_end_to_a_question(stage: Stage) -> None:
    async def local(_: Message) -> TransactionEnd:
        raise ValueError("no such account")

    result = await stage.producer.send_in_transaction(Message("T", b"x"), local)
    header, remark = await stage.next_end()
    assert (result.end, header.commit_or_rollback, remark) == (UNKNOWN, 0, "ValueError: no such account")
    assert isinstance(result.error, ValueError)


async def test_a_local_function_that_returns_nonsense_is_told(stage: Stage) -> None:
    result = await stage.producer.send_in_transaction(Message("T", b"x"), lambda _: True)  # type: ignore[arg-type,return-value]
    assert result.end is UNKNOWN
    assert "TransactionEnd or None, not bool" in str(result.error)


async def test_a_half_message_less_safe_than_promised_is_rolled_back_unasked(stage: Stage) -> None:
    stage.code = ResponseCode.FLUSH_DISK_TIMEOUT
    ran: list[Message] = []
    result = await stage.producer.send_in_transaction(Message("T", b"x"), ran.append)  # type: ignore[arg-type]
    assert (result.end, result.sent.status, ran) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT, [])
    assert (await stage.next_end())[0].commit_or_rollback == 12


async def test_nothing_runs_when_the_half_message_is_refused(stage: Stage) -> None:
    stage.broker.refuse(ResponseCode.MESSAGE_ILLEGAL)
    ran: list[Message] = []
    with pytest.raises(RemoteError):
        await stage.producer.send_in_transaction(Message("T", b"x"), ran.append)  # type: ignore[arg-type]
    assert (ran, stage.ends) == ([], [])


async def test_an_end_that_cannot_be_sent_is_no_error(stage: Stage) -> None:
    async def local(_: Message) -> TransactionEnd:
        await stage.peers.kill("a")
        return COMMIT

    result = await stage.producer.send_in_transaction(Message("T", b"x"), local, timeout_ms=500)
    assert result.end is COMMIT


@pytest.mark.parametrize("when", [{"delay_level": 2}, {"delay": 2}, {"deliver_at": 2}])
async def test_a_delayed_message_is_refused(stage: Stage, when: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="cannot be delayed"):
        await stage.producer.send_in_transaction(Message("T", b"x", **when), lambda _: COMMIT)  # type: ignore[arg-type]


async def test_the_check_function_answers_the_broker_before_any_message_was_sent(stage: Stage) -> None:
    await known_to_the_broker(stage)
    await stage.ask()
    header, remark = await stage.next_end()
    assert (header.commit_or_rollback, header.from_transaction_check, remark) == (8, True, None)
    assert (header.tran_state_table_offset, header.commit_log_offset, header.msg_id) == (21, 99, "u1")
    (asked,) = stage.asked
    assert (asked.topic, asked.queue_id, asked.body, asked.unique_key) == ("T", 3, b"body", "u1")


async def test_a_check_function_that_raises_answers_unknown(stage: Stage) -> None:
    def fail() -> TransactionEnd:
        raise KeyError("u1")

    stage.answer = fail
    await known_to_the_broker(stage)
    await stage.ask()
    header, remark = await stage.next_end()
    assert (header.commit_or_rollback, remark) == (0, "KeyError: 'u1'")


async def test_a_question_for_a_group_that_is_not_here_is_not_answered(stage: Stage) -> None:
    await known_to_the_broker(stage)
    await stage.ask(group="other")
    await stage.ask()
    assert len([await stage.next_end()]) == len(stage.ends) == 1


async def test_more_questions_than_may_be_worked_on_are_dropped(peers: Any, make_broker: Any) -> None:
    stage = Stage(peers)
    await stage.start(make_broker, topics=["T"], config=ProducerConfig(pending_checks_max=1))
    go_on = asyncio.Event()

    async def slow(message: StoredMessage) -> TransactionEnd:
        stage.asked.append(message)
        await go_on.wait()
        return ROLLBACK

    stage.producer._check_function = slow
    await known_to_the_broker(stage)
    for _ in range(3):
        await stage.ask()
    go_on.set()
    await stage.next_end()
    assert len(stage.asked) == 1
    await stage.producer.stop()


async def test_a_check_that_does_not_answer_holds_up_neither_flush_nor_stop(
    peers: Any, make_broker: Callable[..., Any]
) -> None:
    stage, asked = Stage(peers), asyncio.Event()

    async def hangs(message: StoredMessage) -> TransactionEnd:
        asked.set()
        await asyncio.Event().wait()
        return COMMIT

    await stage.start(make_broker, config=ProducerConfig(drain_ms=10))
    await stage.producer.send(Message("T", b"x"))
    await stage.producer.instance.heartbeat()
    stage.producer._check_function = hangs
    await stage.ask()
    async with asyncio.timeout(10):
        await asked.wait()
        await stage.producer.flush()
        await stage.producer.stop()
    assert not stage.producer.is_running


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_check_function_that_meets_a_cancelled_task_answers_unknown(
    peers: Any, make_broker: Callable[..., Any], error: BaseException
) -> None:
    stage = Stage(peers)

    def fails() -> TransactionEnd:
        raise error

    stage.answer = fails
    await stage.start(make_broker)
    await stage.producer.send(Message("T", b"x"))
    await stage.producer.instance.heartbeat()
    await stage.ask()
    end, _ = await stage.next_end()
    assert end.commit_or_rollback == UNKNOWN.value
    await stage.producer.stop()
