"""Lite topics at a broker over real loopback: each is a queue of its own, and has no file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.request import Request
from rocketlake.protocol.bodies.lite import (
    LiteAction,
    LiteOffset,
    LiteOffsetKind,
    LiteSubscription,
    LiteSubscriptionBody,
)
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode as Answer
from rocketlake.store.config import StoreConfig
from tests.grpc_client import until
from tests.lites import PARENT, LiteClient, PoppedLite

ADD, TAKE, ALL, GONE = (
    LiteAction.PARTIAL_ADD,
    LiteAction.PARTIAL_REMOVE,
    LiteAction.COMPLETE_ADD,
    LiteAction.COMPLETE_REMOVE,
)
SOON_MS = 100


def new_broker(folder: Path, flush_disk_type: str = "ASYNC_FLUSH", lite_topics_max: int = 8) -> Broker:
    broker = BrokerConfig(
        broker_name="b", listen_port=0, store_root=folder, lite_subscriptions_max=5, lite_topics_max=lite_topics_max
    )
    store = StoreConfig(commit_log_file_bytes=1024 * 1024, flush_disk_type=flush_disk_type)
    return Broker(broker, store)


async def started(broker: Broker) -> None:
    """The broker takes lite messages."""
    await broker.start()
    broker.ground.topics.put(TopicConfig(PARENT, attributes={"message.type": "LITE"}))
    broker.ground.groups.put(GroupConfig("g", attributes={"lite.bind.topic": PARENT, "lite.sub.client.quota": "3"}))
    broker.ground.groups.put(GroupConfig("other", attributes={"lite.bind.topic": PARENT}))
    async with asyncio.timeout(30):
        while not broker.lite.queues.is_ready:
            await SystemClock().sleep(0.01)


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    broker = new_broker(tmp_path, request.param)
    await started(broker)
    yield broker
    await broker.stop()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[LiteClient]:
    client = LiteClient(broker.address)
    yield client
    await client.net.close()


def shown(popped: list[PoppedLite]) -> list[str]:
    return sorted(map(str, popped))


async def put_all(client: LiteClient, *texts: str) -> None:
    for text in texts:
        lite, _, body = text.partition(":")
        assert (await client.put(lite, body)).code == 0


async def good(client: LiteClient, action: LiteAction, *lites: str, offset: LiteOffset | None = None) -> None:
    answer = await client.change_set(action, *lites, offset=offset)
    assert answer.code == 0, answer.remark


async def test_a_client_gets_what_it_subscribes_to_in_the_order_of_each_lite_topic(client: LiteClient) -> None:
    await put_all(client, "a:1", "b:1", "c:1", "a:2")
    await good(client, ADD, "a", "b")
    assert shown(await client.pop_lite()) == ["a:1", "a:2", "b:1"]


async def test_the_next_message_comes_behind_the_acknowledgement_of_the_last(client: LiteClient) -> None:
    await put_all(client, "a:1", "a:2", "b:1")
    await good(client, ADD, "a")
    [first] = await client.pop_lite(count=1)
    await good(client, ADD, "b")
    assert shown(await client.pop_lite()) == ["b:1"]
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    assert (await client.ack_lite(first)).code == 0
    assert shown(await waiting) == ["a:2"]


async def test_what_is_not_acknowledged_in_time_comes_again(client: LiteClient) -> None:
    await put_all(client, "a:1")
    await good(client, ADD, "a")
    assert shown(await client.pop_lite(SOON_MS)) == ["a:1"]
    [again] = await client.pop_lite(poll_ms=20_000)
    assert str(again) == "a:1 again 1"
    assert (await client.change_lite(again, SOON_MS)).code == 0
    assert shown(await client.pop_lite(poll_ms=20_000)) == ["a:1 again 2"]


async def test_a_pop_that_waits_is_woken_by_a_message(client: LiteClient) -> None:
    await good(client, ALL, "a", "b")
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    await put_all(client, "c:1", "b:1")
    assert shown(await waiting) == ["b:1"]


async def test_two_groups_get_each_message_and_two_clients_of_a_group_one_of_them(
    broker: Broker, client: LiteClient
) -> None:
    second = LiteClient(broker.address, client_id="c2", net=client.net)
    other = LiteClient(broker.address, group="other", net=client.net)
    for each in (client, second, other):
        await good(each, ADD, "a")
    await put_all(client, "a:1")
    assert shown(await client.pop_lite() + await second.pop_lite()) == ["a:1"]
    assert shown(await other.pop_lite()) == ["a:1"]


@pytest.mark.parametrize(("action", "left"), [(TAKE, ["b:2"]), (GONE, []), (ALL, ["a:2", "c:1", "c:2"])])
async def test_a_set_becomes_smaller(client: LiteClient, action: LiteAction, left: list[str]) -> None:
    await good(client, ALL, "a", "b")
    await put_all(client, "a:1", "b:1")
    for popped in await client.pop_lite():
        await client.ack_lite(popped)
    await put_all(client, "c:1")
    await good(client, action, *{TAKE: ["a"], ALL: ["a", "c"], GONE: []}[action])
    await put_all(client, "a:2", "b:2", "c:2")
    assert shown(await client.pop_lite()) == left


@pytest.mark.parametrize(
    ("option", "left"),
    [
        (LiteOffset(type=LiteOffsetKind.POLICY, value=0), ["a:1", "a:2", "a:3"]),
        (LiteOffset(type=LiteOffsetKind.POLICY, value=1), ["a:1", "a:2", "a:3"]),
        (LiteOffset(type=LiteOffsetKind.POLICY, value=2), []),
    ],
)
async def test_an_offset_option_says_where_a_group_begins(
    client: LiteClient, option: LiteOffset, left: list[str]
) -> None:
    await put_all(client, "a:1", "a:2", "a:3")
    await good(client, ADD, "a", offset=option)
    assert shown(await client.pop_lite()) == left


@pytest.mark.parametrize(
    "option",
    [
        LiteOffset(type=LiteOffsetKind.OFFSET, value=10**15),
        LiteOffset(type=LiteOffsetKind.OFFSET, value=10**30),
        LiteOffset(type=LiteOffsetKind.TAIL_N, value=-(10**15)),
    ],
)
async def test_an_offset_option_behind_the_end_hides_no_message_that_comes_later(
    client: LiteClient, option: LiteOffset
) -> None:
    await put_all(client, "a:1", "a:2")
    await good(client, ADD, "a")
    for popped in await client.pop_lite():
        assert (await client.ack_lite(popped)).code == 0
    await good(client, TAKE, "a")
    await good(client, ADD, "a", "new", offset=option)
    await put_all(client, "a:3", "new:1")
    assert shown(await client.pop_lite()) == ["a:3", "new:1"]


async def test_what_needs_the_ends_of_light_queues_is_refused_as_busy_until_they_are_known(
    broker: Broker, client: LiteClient
) -> None:
    """An acknowledgement that is refused in another way is never tried again: its message would come twice."""
    await put_all(client, "a:1", "a:2", "b:1")
    await good(client, ADD, "a")
    first, second = await client.pop_lite()
    broker.lite.queues.follow()
    assert (await client.ack_lite(first)).code == Answer.SYSTEM_BUSY
    assert (await client.change_lite(second, SOON_MS)).code == Answer.SYSTEM_BUSY
    last = LiteOffset(type=LiteOffsetKind.POLICY, value=2)
    assert (await client.change_set(ADD, "b", offset=last)).code == Answer.SYSTEM_BUSY
    await good(client, ADD, "c", offset=LiteOffset())
    broker.lite.queues.lead()
    async with asyncio.timeout(30):
        while (await client.ack_lite(first)).code:
            await SystemClock().sleep(0.01)
    await good(client, ADD, "b", offset=last)
    await put_all(client, "b:2")
    assert shown(await client.pop_lite()) == ["b:2"]


async def test_a_restart_keeps_what_is_there_and_how_far_groups_are(tmp_path: Path) -> None:
    broker = new_broker(tmp_path)
    await started(broker)
    client = LiteClient(broker.address)
    await put_all(client, "a:1", "a:2", "b:1")
    await good(client, ADD, "a", "b")
    for popped in await client.pop_lite():
        if str(popped) != "b:1":
            assert (await client.ack_lite(popped)).code == 0
    await client.net.close()
    await broker.stop()
    broker = new_broker(tmp_path)
    await started(broker)
    client = LiteClient(broker.address)
    await put_all(client, "a:3")
    await good(client, ADD, "a", "b")
    assert shown(await client.pop_lite()) == ["a:3", "b:1"]
    await client.net.close()
    await broker.stop()


async def test_an_old_acknowledgement_takes_no_other_message_along(tmp_path: Path) -> None:
    broker = new_broker(tmp_path)
    await started(broker)
    client = LiteClient(broker.address)
    await put_all(client, "a:1", "a:2")
    await good(client, ADD, "a")
    _, second = await client.pop_lite()
    await client.net.close()
    await broker.stop()
    broker = new_broker(tmp_path)
    await started(broker)
    client = LiteClient(broker.address)
    assert (await client.ack_lite(second)).code == 0
    await good(client, ADD, "a")
    assert shown(await client.pop_lite()) == ["a:1", "a:2"]
    await client.net.close()
    await broker.stop()


async def test_a_long_light_queue_is_read_from_its_start(client: LiteClient) -> None:
    bodies = [str(number) for number in range(600)]
    for body in bodies:
        await client.put("a", body)
    await good(client, ADD, "a")
    got: list[str] = []
    while popped := await client.pop_lite(poll_ms=1000 if len(got) < 600 else 0):
        got += [each.body for each in popped]
        for each in popped:
            assert (await client.ack_lite(each)).code == 0
    assert got == bodies


@pytest.mark.parametrize("is_acknowledged", [True, False])
async def test_a_parent_made_anew_begins_anew(broker: Broker, client: LiteClient, *, is_acknowledged: bool) -> None:
    await good(client, ADD, "a")
    await put_all(client, "a:1", "a:2")
    for popped in await client.pop_lite():
        if is_acknowledged:
            await client.ack_lite(popped)
    broker.ground.topics.delete(PARENT)
    broker.ground.store.delete_topics([PARENT])
    broker.ground.topics.put(TopicConfig(PARENT, attributes={"message.type": "LITE"}))
    await put_all(client, "a:3")
    await good(client, ADD, "a")
    assert shown(await client.pop_lite()) == ["a:3"]


@pytest.mark.parametrize(
    ("lite", "properties"), [("a$b", {}), ("x" * 65, {}), ("a", {"DELAY": "3"}), ("a", {"TRAN_MSG": "true"})]
)
async def test_a_message_that_can_be_none_of_a_lite_topic_is_refused(
    broker: Broker, client: LiteClient, lite: str, properties: dict[str, str]
) -> None:
    end = broker.ground.store.max_physical_offset
    assert (await client.put(lite, "1", **properties)).code == Answer.MESSAGE_ILLEGAL
    assert broker.ground.store.max_physical_offset == end


async def test_subscriptions_have_limits(broker: Broker, client: LiteClient) -> None:
    other = LiteClient(broker.address, group="other", net=client.net)
    assert (await client.change_set(ADD, "a", "b", "c", "d")).code == Answer.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    await good(client, ADD, "a", "b", "c")
    assert (await client.change_set(ADD, "d")).code == Answer.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    await good(client, ALL, "b", "c", "d")
    assert (await other.change_set(ADD, "a", "b", "c")).code == Answer.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    await good(client, GONE)
    await good(other, ADD, "a", "b", "c")
    assert broker.lite.subscriptions.count == 3


@pytest.mark.parametrize("changes", [[(ALL, [])], [(ADD, [])], [(ADD, ["a", "b"]), (TAKE, ["a", "b"])], [(GONE, [])]])
async def test_who_subscribes_to_nothing_costs_nothing(
    broker: Broker, client: LiteClient, changes: list[tuple[LiteAction, list[str]]]
) -> None:
    """Else clients without number would be kept, that no limit counts. A pop that waits is woken all the same."""
    for action, lites in changes:
        await good(client, action, *lites)
    assert list(broker.lite.subscriptions) == []
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    await until(lambda: len(broker.lite.hold) == 1)
    await put_all(client, "a:1")
    await good(client, ADD, "a")
    assert shown(await waiting) == ["a:1"]


async def test_a_client_id_has_a_limit(broker: Broker, client: LiteClient) -> None:
    client.client_id = "c" * 256
    answer = await client.change_set(ADD, "a")
    assert (answer.code, "256 characters" in (answer.remark or "")) == (Answer.ILLEGAL_OPERATION, True)
    assert list(broker.lite.subscriptions) == []


async def test_other_requests_are_served_between_the_changes_of_one(broker: Broker, client: LiteClient) -> None:
    await good(client, ADD, "a")
    [subscriber] = broker.lite.subscriptions
    assert subscriber.asker is not None
    entries = [
        LiteSubscription(action=ADD, client_id=f"c{number}", group="g", topic=PARENT, lite_topic_set=["a"])
        for number in range(3)
    ]
    body = LiteSubscriptionBody(subscription_set=entries).encode()
    command = Command.request(Code.LITE_SUBSCRIPTION_CTL, body=body)
    change = next(row.handler for row in broker.lite.rows if row.code == Code.LITE_SUBSCRIPTION_CTL)
    steps = change(Request(command, subscriber.asker, 0.0))
    counts = [broker.lite.subscriptions.count for _ in steps]
    assert (counts, broker.lite.subscriptions.count) == ([2, 3], 4)


async def test_a_group_is_bound_to_its_parent(broker: Broker, client: LiteClient) -> None:
    broker.ground.groups.put(GroupConfig("free"))
    for group, code in (
        ("free", Answer.INVALID_PARAMETER),
        ("unknown", Answer.SUBSCRIPTION_GROUP_NOT_EXIST),
    ):
        asker = LiteClient(broker.address, group=group, net=client.net)
        answer = await asker.change_set(ADD, "a")
        assert (answer.code, f"--attribute +lite.bind.topic={PARENT}" in (answer.remark or "")) == (code, True)
    assert (await client.change_set(ADD, "a", topic="T")).code == Answer.INVALID_PARAMETER


async def test_more_lite_topics_than_the_broker_may_have_are_refused(broker: Broker, client: LiteClient) -> None:
    await put_all(client, *[f"{number}:1" for number in range(8)])
    answer = await client.put("one-more", "1")
    assert (answer.code, "maxLmqConsumeQueueNum" in (answer.remark or "")) == (Answer.LMQ_QUOTA_EXCEEDED, True)
    await put_all(client, "7:2")
    assert len(broker.lite.queues) == 8


async def test_an_offset_of_messages_that_a_crash_took_hides_none_that_comes_later(tmp_path: Path) -> None:
    """All messages of the lite topic were lost with the log's end; what the group acknowledged was saved."""
    broker = new_broker(tmp_path)
    await started(broker)
    lost = broker.lite.queues.first_number + 100_000
    broker.ground.offsets.commit("g", f"%LMQ%${PARENT}$a", 0, lost)
    await broker.stop()
    broker = new_broker(tmp_path)
    await started(broker)
    client = LiteClient(broker.address)
    await put_all(client, "a:1")
    await good(client, ADD, "a")
    assert shown(await client.pop_lite()) == ["a:1"]
    await client.net.close()
    await broker.stop()
