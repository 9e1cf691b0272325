"""What a broker may ask of a client: members changed, running info, offsets, consume now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketlake.client.consumer.push import PushConsumer
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.request import HELD, Reply
from rocketlake.protocol.bodies.client import ConsumeDirectlyResult, ConsumerRunningInfo
from rocketlake.protocol.bodies.offset import ConsumerStatus, ResetOffsets
from rocketlake.protocol.headers.client import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    NotifyConsumersChangedHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
from rocketlake.protocol.headers.offset import OffsetReplyHeader
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.unit.client.records import stored_record

QUEUES = [MessageQueue("T", "a", number) for number in range(2)]


class Stage:
    """A push consumer of two queues at a scripted broker whose pulls stay held; committed offset 7."""

    def __init__(self, peers: Any) -> None:
        self.pulled: list[tuple[int, int]] = []
        self.saved: dict[int, int] = {}
        self.seen: list[bytes] = []
        self.fails = False
        self.instance = peers.client()
        self.consumer = PushConsumer("g", instance=self.instance, listener=self.listen)
        self.consumer.subscribe("T")

    async def start(self, peers: Any, make_broker: Any) -> None:
        handlers = {
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.QUERY_CONSUMER_OFFSET: lambda request: Reply(header=OffsetReplyHeader(offset=7)),
            RequestCode.UPDATE_CONSUMER_OFFSET: self._save,
        }
        self.broker = await make_broker("a", handlers)
        self.broker.members = [self.instance.client_id]
        peers.route("T", self.broker)
        peers.route("%RETRY%g", self.broker, queues=0)
        await self.instance.start()
        await self.consumer.start()
        await self.pulls((0, 7), (1, 7))

    def _pull(self, request: Any) -> Any:
        header = request.header(PullHeader)
        self.pulled.append((header.queue_id, header.queue_offset))
        return HELD

    def _save(self, request: Any) -> Reply:
        fields = request.command.fields
        self.saved[int(fields["queueId"])] = int(fields["commitOffset"])
        return Reply()

    async def listen(self, messages: list[StoredMessage]) -> None:
        if self.fails:
            raise ValueError("not today")
        self.seen += [message.body for message in messages]

    async def pulls(self, *wanted: tuple[int, int]) -> None:
        async with asyncio.timeout(5):
            while not set(wanted) <= set(self.pulled):  # noqa: ASYNC110  (the client decides when it pulls)
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage(peers: Any, make_broker: Any) -> AsyncIterator[Stage]:
    stage = Stage(peers)
    await stage.start(peers, make_broker)
    yield stage
    await stage.consumer.stop()


async def test_a_change_of_members_is_followed_at_once(stage: Stage) -> None:
    stage.broker.members.append("zzz")
    await stage.broker.ask_client(
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumersChangedHeader(consumer_group="g")
    )
    async with asyncio.timeout(5):
        while len(stage.consumer.assignment) > 1:  # noqa: ASYNC110  (the round runs in the client)
            await asyncio.sleep(0.005)
    assert stage.consumer.assignment == QUEUES[:1]
    assert stage.saved == {1: 7}, "the offset of the queue given up was saved first"


async def test_running_info_shows_queues_subscriptions_and_settings(stage: Stage) -> None:
    header = RunningInfoHeader(consumer_group="g", client_id=stage.instance.client_id)
    answer = await stage.broker.ask_client(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    info = ConsumerRunningInfo.decode(answer.body_bytes)
    assert set(info.queues) == set(QUEUES)
    assert {entry.commit_offset for entry in info.queues.values()} == {7}
    assert {entry.topic for entry in info.subscriptions} == {"T", "%RETRY%g"}
    assert info.properties["PROP_NAMESERVER_ADDR"] == "ns:9876;"


async def test_offsets_of_a_topic_can_be_asked(stage: Stage) -> None:
    header = ConsumerStatusHeader(topic="T", group="g")
    answer = await stage.broker.ask_client(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
    assert ConsumerStatus.decode(answer.body_bytes).queues == dict.fromkeys(QUEUES, 7)


async def test_a_reset_moves_offsets_saves_them_and_pulls_from_there(stage: Stage) -> None:
    header = ResetOffsetHeader(topic="T", group="g", timestamp=0, is_force=True)
    await stage.broker.ask_client(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, ResetOffsets({QUEUES[1]: 3}).encode()
    )
    await stage.pulls((1, 3))
    assert stage.saved == {1: 3}
    assert (0, 3) not in stage.pulled


@pytest.mark.parametrize(("fails", "outcome"), [(False, "CR_SUCCESS"), (True, "CR_THROW_EXCEPTION")])
async def test_a_message_is_consumed_now_and_the_outcome_reported(stage: Stage, fails: bool, outcome: str) -> None:
    stage.fails = fails
    header = ConsumeDirectlyHeader(consumer_group="g", broker_name="a")
    answer = await stage.broker.ask_client(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, stored_record(b"now"))
    result = ConsumeDirectlyResult.decode(answer.body_bytes)
    assert result.consume_result == outcome
    assert stage.seen == ([] if fails else [b"now"])
    assert stage.saved == {}, "nothing is committed by it"


async def test_a_record_that_is_broken_is_an_error_not_a_crash(stage: Stage) -> None:
    header = ConsumeDirectlyHeader(consumer_group="g", broker_name="a")
    answer = await stage.broker.ask_client(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, b"garbage")
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader(consumer_group="x", client_id="c")),
        (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader(topic="T", group="x")),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader(consumer_group="x")),
        (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader(topic="T", group="x", timestamp=0, is_force=True)),
    ],
)
async def test_a_group_that_is_not_here_is_named(stage: Stage, code: RequestCode, header: Any) -> None:
    answer = await stage.broker.ask_client(code, header)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "consumer group x is not in this client" in (answer.remark or "")


async def test_stop_saves_offsets_and_leaves_the_group(stage: Stage) -> None:
    await stage.consumer.stop()
    assert stage.saved == {0: 7, 1: 7}
    assert stage.broker.left == [stage.instance.client_id]
    assert stage.consumer.assignment == []
