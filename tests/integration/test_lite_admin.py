"""What administrators are told of lite topics, over real loopback."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.bodies.lite import LiteOffset, LiteOffsetKind
from rocketlake.protocol.bodies.lite_info import LiteClientInfo, LiteGroupInfo, LiteTopicInfo, ParentTopicInfo
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.lite import (
    LiteClientInfoHeader,
    LiteDispatchHeader,
    LiteGroupInfoHeader,
    LiteTopicInfoHeader,
    ParentTopicInfoHeader,
)
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode as Answer
from tests.integration.test_lite_topics import ADD, good, put_all, shown
from tests.integration.test_lite_topics import broker as broker
from tests.integration.test_lite_topics import client as client
from tests.lites import PARENT, LiteClient

FIRST = LiteOffset(type=LiteOffsetKind.POLICY, value=1)


async def asked(client: LiteClient, code: Code, header: Header) -> bytes:
    answer = await client.ask(code, header)
    assert answer.code == 0, answer.remark
    return answer.body_bytes


async def group_info(client: LiteClient, lite: str = "", top: int = 20) -> LiteGroupInfo:
    header = LiteGroupInfoHeader(group="g", lite_topic=lite, top_k=top)
    return LiteGroupInfo.decode(await asked(client, Code.GET_LITE_GROUP_INFO, header))


async def test_a_lag_counts_the_messages_of_the_light_queue_only(client: LiteClient) -> None:
    await put_all(client, "other:1", *["a:1"] * 5, *["b:1"] * 2)
    await good(client, ADD, "a", "b", offset=FIRST)
    popped = await client.pop_lite()
    before = [(each.lite_topic, each.lag_count) for each in (await group_info(client)).lag_count_top_k or ()]
    assert before == [("a", 5), ("b", 2)]
    for each in popped:
        if each.lite == "a" or each is popped[-1]:
            assert (await client.ack_lite(each)).code == 0
    await put_all(client, "a:2")
    found = await group_info(client)
    assert found.total_lag_count == sum(each.lag_count for each in found.lag_count_top_k or ())
    assert len((await group_info(client, top=1)).lag_count_top_k or ()) == 1
    of_a = await group_info(client, "a")
    offsets = of_a.lite_topic_offset_wrapper
    assert offsets is not None
    assert (of_a.total_lag_count, offsets.broker_offset - offsets.consumer_offset) == (1, 1)
    assert 0 < offsets.last_timestamp <= of_a.earliest_unconsumed_timestamp
    assert (await group_info(client, "none")).total_lag_count == -1


async def test_a_lite_topic_and_its_parent(broker: Broker, client: LiteClient) -> None:
    await put_all(client, "a:1", "b:1", "b:2")
    await good(client, ADD, "b")
    header = LiteTopicInfoHeader(parent_topic=PARENT, lite_topic="b")
    topic = LiteTopicInfo.decode(await asked(client, Code.GET_LITE_TOPIC_INFO, header))
    assert topic.topic_offset.max_offset - topic.topic_offset.min_offset == 2
    assert abs(topic.topic_offset.last_update_timestamp - client.clock.now_ms()) < 60_000
    assert [(each.client_id, each.group) for each in topic.subscriber] == [("c", "g")]
    parent = ParentTopicInfo.decode(
        await asked(client, Code.GET_PARENT_TOPIC_INFO, ParentTopicInfoHeader(topic=PARENT))
    )
    assert (parent.ttl, parent.lite_topic_count, sorted(parent.groups or ())) == (-1, 2, ["g", "other"])


async def test_a_client_and_at_most_as_many_names_as_wanted(client: LiteClient) -> None:
    await good(client, ADD, "a", "b", "c")
    for most, names in ((2, 2), (1000, 3), (-1, 0)):
        header = LiteClientInfoHeader(parent_topic=PARENT, group="g", client_id="c", max_count=most)
        found = LiteClientInfo.decode(await asked(client, Code.GET_LITE_CLIENT_INFO, header))
        assert (found.lite_topic_count, len(found.lite_topic_set or ())) == (3, names)


async def test_a_pop_that_waits_is_told_to_look(broker: Broker, client: LiteClient) -> None:
    await put_all(client, "a:1")
    await good(client, ADD, "a")
    subscriber = broker.lite.subscriptions.get("c", "g")
    assert subscriber is not None
    subscriber.ready.clear()
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    async with asyncio.timeout(10):
        while not len(broker.lite.hold):
            await client.clock.sleep(0.01)
    await asked(client, Code.TRIGGER_LITE_DISPATCH, LiteDispatchHeader(group="g"))
    assert shown(await waiting) == ["a:1"]


@pytest.mark.parametrize(
    ("code", "header", "answer"),
    [
        (Code.GET_PARENT_TOPIC_INFO, ParentTopicInfoHeader(topic="None"), Answer.TOPIC_NOT_EXIST),
        (Code.GET_PARENT_TOPIC_INFO, ParentTopicInfoHeader(topic="Usual"), Answer.INVALID_PARAMETER),
        (Code.GET_LITE_TOPIC_INFO, LiteTopicInfoHeader(parent_topic="Usual"), Answer.INVALID_PARAMETER),
        (
            Code.GET_LITE_CLIENT_INFO,
            LiteClientInfoHeader(parent_topic=PARENT, group="free"),
            Answer.INVALID_PARAMETER,
        ),
        (Code.GET_LITE_GROUP_INFO, LiteGroupInfoHeader(group="none"), Answer.SUBSCRIPTION_GROUP_NOT_EXIST),
        (Code.TRIGGER_LITE_DISPATCH, LiteDispatchHeader(group="free"), Answer.INVALID_PARAMETER),
    ],
)
async def test_what_is_no_lite_topic_or_group_is_refused(
    broker: Broker, client: LiteClient, code: Code, header: Header, answer: int
) -> None:
    broker.ground.topics.put(TopicConfig("Usual"))
    broker.ground.groups.put(GroupConfig("free"))
    assert (await client.ask(code, header)).code == answer
