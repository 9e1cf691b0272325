"""Exclusive groups at a broker over real loopback: a lite topic belongs to the client that subscribed to it last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.model.group import GroupConfig
from rocketlake.net.client import NetClient
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.lite import LiteOffset, LiteOffsetKind
from rocketlake.protocol.headers.lite import NotifyUnsubscribeLiteHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode as Answer
from tests.integration.test_lite_topics import ADD, ALL, GONE, SOON_MS, TAKE, good, new_broker, put_all, shown, started
from tests.lites import PARENT, LiteClient

EXCLUSIVE = {"lite.bind.topic": PARENT, "lite.sub.model": "Exclusive"}


class Told(LiteClient):
    """A client that writes down which lite topics it has lost."""

    def __init__(self, address: str, client_id: str, group: str = "one") -> None:
        net = NetClient()
        net.serve({RequestCode.NOTIFY_UNSUBSCRIBE_LITE: self._lost})
        super().__init__(address, group, client_id, net=net)
        self.lost: list[str] = []
        self.is_told = asyncio.Event()

    def _lost(self, request: Request) -> Reply:
        header = request.header(NotifyUnsubscribeLiteHeader)
        assert (header.consumer_group, header.client_id) == (self.group, self.client_id)
        self.lost.append(header.lite_topic)
        self.is_told.set()
        return Reply()

    async def next_lost(self) -> list[str]:
        async with asyncio.timeout(20):
            await self.is_told.wait()
        self.is_told.clear()
        return sorted(self.lost)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = new_broker(tmp_path)
    await started(broker)
    broker.ground.groups.put(GroupConfig("one", attributes=EXCLUSIVE))
    yield broker
    await broker.stop()


@pytest.fixture
async def old(broker: Broker) -> AsyncIterator[Told]:
    client = Told(broker.address, "old")
    yield client
    await client.net.close()


@pytest.fixture
async def new(broker: Broker) -> AsyncIterator[Told]:
    client = Told(broker.address, "new")
    yield client
    await client.net.close()


async def test_a_lite_topic_goes_to_the_client_that_subscribes_last(old: Told, new: Told) -> None:
    await good(old, ADD, "a", "b")
    waiting = asyncio.create_task(new.pop_lite(poll_ms=20_000))
    await good(new, ADD, "a")
    assert await old.next_lost() == ["a"]
    await put_all(old, "a:1", "b:1")
    assert shown(await waiting) == ["a:1"]
    assert shown(await old.pop_lite()) == ["b:1"]
    await good(old, ADD, "a")
    assert await new.next_lost() == ["a"]
    assert old.lost == ["a"]


async def test_each_group_has_an_owner_and_shared_groups_have_none(broker: Broker, old: Told, new: Told) -> None:
    broker.ground.groups.put(GroupConfig("two", attributes=EXCLUSIVE))
    two = Told(broker.address, "two", group="two")
    shared = [LiteClient(broker.address, "other", name, net=old.net) for name in ("s", "t")]
    for each in (old, two, *shared):
        await good(each, ADD, "a")
    await good(new, ADD, "a")
    assert await old.next_lost() == ["a"]
    owners = {(each.group, each.client_id) for each in broker.lite.subscriptions.of_lite(PARENT, "a")}
    assert owners == {("one", "new"), ("two", "two"), ("other", "s"), ("other", "t")}
    assert two.lost == []
    await two.net.close()


async def test_what_the_old_owner_has_in_flight_comes_to_the_new_one_when_its_time_is_over(
    old: Told, new: Told
) -> None:
    await put_all(old, "a:1", "a:2")
    await good(old, ADD, "a")
    await old.pop_lite(SOON_MS, count=1)
    await good(new, ADD, "a")
    assert shown(await new.pop_lite(poll_ms=20_000)) == ["a:1 again 1", "a:2"]


async def test_what_the_old_owner_acknowledges_does_not_come_to_the_new_one(old: Told, new: Told) -> None:
    await put_all(old, "a:1", "a:2")
    await good(old, ADD, "a")
    [first] = await old.pop_lite(count=1)
    await good(new, ADD, "a")
    assert await new.pop_lite() == []
    waiting = asyncio.create_task(new.pop_lite(poll_ms=20_000))
    assert (await old.ack_lite(first)).code == 0
    assert shown(await waiting) == ["a:2"]


async def test_a_whole_set_takes_nothing_from_others_and_is_answered_with_the_word_that_was_lost(
    broker: Broker, old: Told, new: Told
) -> None:
    await good(old, ADD, "a", "b")
    await good(new, ALL, "a", "c")
    assert await new.next_lost() == ["a"]
    await good(new, ADD, "a")
    assert await old.next_lost() == ["a"]
    await good(old, ALL, "a", "b")
    assert await old.next_lost() == ["a", "a"]
    assert [each.client_id for each in broker.lite.subscriptions.of_lite(PARENT, "a")] == ["new"]
    await good(new, GONE)
    await good(old, ALL, "a", "b")
    await put_all(old, "a:1")
    assert shown(await old.pop_lite()) == ["a:1"]


async def test_a_group_that_becomes_exclusive_has_one_owner_soon(broker: Broker, old: Told, new: Told) -> None:
    broker.ground.groups.put(GroupConfig("one", attributes={"lite.bind.topic": PARENT}))
    await good(old, ADD, "a", "b")
    await good(new, ADD, "a", "b")
    broker.ground.groups.put(GroupConfig("one", attributes=EXCLUSIVE))
    await good(new, ADD, "a")
    assert await old.next_lost() == ["a"]
    await good(old, ALL, "b")
    await good(new, ALL, "a", "b")
    owners = [broker.lite.subscriptions.of_lite(PARENT, lite) for lite in "ab"]
    assert [[each.client_id for each in found] for found in owners] == [["new"], ["new"]]
    assert broker.lite.subscriptions.count == 2


@pytest.mark.parametrize(("reset", "left"), [("true", ["a:1", "a:2"]), ("false", ["a:2"])])
async def test_a_new_owner_begins_at_the_first_message_if_the_group_says_so(
    broker: Broker, old: Told, new: Told, reset: str, left: list[str]
) -> None:
    attributes = {**EXCLUSIVE, "lite.sub.reset.offset.exclusive": reset}
    broker.ground.groups.put(GroupConfig("one", attributes=attributes))
    await put_all(old, "a:1", "a:2")
    await good(old, ADD, "a")
    [first] = await old.pop_lite(count=1)
    assert (await old.ack_lite(first)).code == 0
    await good(old, ALL, "a")
    await good(new, ADD, "a")
    assert shown(await new.pop_lite()) == left


async def test_an_offset_option_counts_more_than_the_reset(broker: Broker, old: Told, new: Told) -> None:
    attributes = {**EXCLUSIVE, "lite.sub.reset.offset.exclusive": "true"}
    broker.ground.groups.put(GroupConfig("one", attributes=attributes))
    await put_all(old, "a:1", "a:2")
    await good(old, ADD, "a")
    await good(new, ADD, "a", offset=LiteOffset(type=LiteOffsetKind.POLICY, value=2))
    await put_all(old, "a:3")
    assert shown(await new.pop_lite()) == ["a:3"]


@pytest.mark.parametrize(("reset", "left"), [("true", ["a:1"]), ("false", [])])
async def test_a_group_begins_anew_in_what_a_client_unsubscribes_from_if_it_says_so(
    broker: Broker, old: Told, reset: str, left: list[str]
) -> None:
    attributes = {"lite.bind.topic": PARENT, "lite.sub.reset.offset.unsubscribe": reset}
    broker.ground.groups.put(GroupConfig("one", attributes=attributes))
    await put_all(old, "a:1")
    await good(old, ADD, "a")
    for popped in await old.pop_lite():
        assert (await old.ack_lite(popped)).code == 0
    await good(old, TAKE, "a", "never")
    await good(old, ADD, "a")
    assert shown(await old.pop_lite()) == left
    assert broker.ground.offsets.topics_of("one") == [f"%LMQ%${PARENT}$a"]


async def test_a_client_whose_link_is_gone_hears_it_with_its_whole_set(broker: Broker, old: Told, new: Told) -> None:
    await good(old, ADD, "a")
    subscriber = broker.lite.subscriptions.get("old", "one")
    assert subscriber is not None and subscriber.asker is not None
    subscriber.asker.close()
    await good(new, ADD, "a")
    await good(old, ALL, "a")
    assert await old.next_lost() == ["a"]


async def test_the_limit_of_all_holds_for_a_client_that_adds_one_by_one(broker: Broker, old: Told) -> None:
    for lite in "abcde":
        await good(old, ADD, lite)
    assert (await old.change_set(ADD, "f")).code == Answer.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert broker.lite.subscriptions.count == 5
