"""One who wants all of a broker: what he gets, and what a well-behaved client beside him sees meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketlake.auth.credentials import Credentials
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, Heartbeat, ProducerEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.client import GroupMembersHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from tests.lone_broker import CALM, GREEDY, Alone
from tests.requests import send_header

OK = ResponseCode.SUCCESS


Start = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    begun: list[Alone] = []

    async def begin(**settings: Any) -> Alone:
        alone = Alone(**settings)
        begun.append(alone)
        await alone.start()
        return alone

    yield begin
    for alone in begun:
        await alone.stop()


def heartbeat(client_id: str, groups: range, *, producers: bool) -> Command:
    if producers:
        body = Heartbeat(client_id=client_id, producers=[ProducerEntry(group_name=f"g{number}") for number in groups])
    else:
        body = Heartbeat(client_id=client_id, consumers=[consumer(f"g{number}") for number in groups])
    return Command.request(Code.HEART_BEAT, body=body.encode())


def consumer(group: str) -> ConsumerEntry:
    return ConsumerEntry(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscriptions=[],
        unit_mode=False,
    )


async def test_waiting_pulls_of_one_host_leave_room_for_another(start: Start) -> None:
    alone = await start(held_pulls_max=20, held_pulls_of_one_max=10)
    greedy, calm = alone.client_at(GREEDY), alone.client_at(CALM)
    taken = [await alone.waits(greedy) for _ in range(30)]
    refused = [task.result() for task in taken if task.done()]
    assert len(refused) == 20
    assert {(answer.code, "heldPullsOfOneMax" in answer.remark) for answer in refused} == {
        (ResponseCode.SYSTEM_BUSY, True)
    }
    waiting = await alone.waits(calm)
    assert not waiting.done()
    sent = await alone.asked(calm, Command.request(Code.SEND_MESSAGE_V2, send_header(), b"body"))
    await alone.clock.settle()
    assert (sent.code, waiting.result().code) == (OK, OK)
    # Woken, they have given their places back.
    assert not (await alone.waits(greedy, offset=1)).done()


async def test_a_link_that_ends_gives_the_places_of_its_pulls_back(start: Start) -> None:
    alone = await start(held_pulls_max=20, held_pulls_of_one_max=10)
    shares = alone.master.reading.hold.shares
    greedy = alone.client_at(GREEDY)
    waiting = [await alone.waits(greedy) for _ in range(4)]
    assert (shares.total, shares.of(GREEDY)) == (4, 4)
    await greedy.close()
    await alone.clock.settle()
    assert (shares.total, shares.of(GREEDY)) == (0, 0)
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_with_users_the_share_is_the_users_wherever_he_comes_from(start: Start) -> None:
    inner = '{"accessKey":"greedy","secretKey":"greedy-secret"}'
    first = '{"username":"calm","password":"calm-secret"}'
    alone = await start(
        held_pulls_max=20,
        held_pulls_of_one_max=10,
        authentication_enabled=True,
        inner_credentials=inner,
        first_user=first,
    )
    hosts = [alone.client_at(f"10.0.1.{number}", Credentials("greedy", "greedy-secret")) for number in range(5)]
    taken = [await alone.waits(host) for host in hosts for _ in range(4)]
    refused = [task.result() for task in taken if task.done()]
    assert (len(refused), "10 pulls of user greedy wait" in refused[0].remark) == (10, True)
    calm = alone.client_at("10.0.1.0", Credentials("calm", "calm-secret"))
    assert not (await alone.waits(calm)).done()


async def test_connections_of_one_host_leave_room_for_another(start: Start) -> None:
    alone = await start(connections_of_host_max=5)
    calm = alone.client_at(CALM)
    greedy = [alone.client_at(GREEDY) for _ in range(8)]
    pull = Command.request(Code.GET_BROKER_CONFIG)
    served = await asyncio.gather(*[alone.asked(client, pull) for client in greedy], return_exceptions=True)
    assert sum(isinstance(answer, Command) for answer in served) == 5
    assert (await alone.asked(calm, Command.request(Code.SEND_MESSAGE_V2, send_header(), b"body"))).code == OK
    await greedy[0].close()
    await alone.clock.settle()
    assert (await alone.asked(alone.client_at(GREEDY), pull)).code == OK


@pytest.mark.parametrize("producers", [True, False])
async def test_groups_without_end_in_heartbeats_are_refused_and_others_register(start: Start, producers: bool) -> None:
    alone = await start(memberships_max=30, memberships_of_one_max=20)
    greedy, calm = alone.client_at(GREEDY), alone.client_at(CALM)
    answer = await alone.asked(greedy, heartbeat("greedy", range(50), producers=producers))
    assert (answer.code, "membershipsOfOneMax=20" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert (await alone.asked(calm, heartbeat("calm", range(5), producers=False))).code == OK
    members = Command.request(Code.GET_CONSUMER_LIST_BY_GROUP, GroupMembersHeader(consumer_group="g4"))
    assert b"calm" in (await alone.asked(calm, members)).body_bytes
    # What is known already goes on; a link that ends gives its places back.
    assert (await alone.asked(greedy, heartbeat("greedy", range(20), producers=producers))).code == OK
    await greedy.close()
    await alone.clock.settle()
    more = await alone.asked(alone.client_at(GREEDY), heartbeat("again", range(20, 40), producers=producers))
    assert more.code == OK


@pytest.mark.parametrize(
    ("settings", "queues", "name"),
    [({"topics_max": 60}, 1, "topicsMax"), ({"topic_queues_max": 100}, 101, "topicQueuesMax"), ({}, 65_537, "queues")],
)
async def test_one_topic_or_queue_too_many_is_refused_by_the_name_of_the_setting(
    start: Start, settings: dict[str, int], queues: int, name: str
) -> None:
    alone = await start(**settings)
    calm, refusals = alone.client_at(CALM), []
    for number in range(60):
        answer = await alone.asked(calm, create(f"N{number}", queues))
        if answer.code != OK:
            refusals.append(answer.remark)
    assert refusals and all(name in remark for remark in refusals)
    assert (await alone.asked(calm, Command.request(Code.SEND_MESSAGE_V2, send_header(), b"body"))).code == OK


def create(topic: str, queues: int) -> Command:
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    return Command.request(Code.UPDATE_AND_CREATE_TOPIC, header)
