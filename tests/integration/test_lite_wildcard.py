"""Wildcard groups at a broker over real loopback: their clients get all lite topics of a parent, without a list."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.model.group import GroupConfig
from rocketlake.protocol.bodies.lite_info import LiteClientInfo, LiteTopicInfo
from rocketlake.protocol.headers.lite import LiteClientInfoHeader, LiteDispatchHeader, LiteTopicInfoHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode as Answer
from tests.grpc_client import until
from tests.integration.test_lite_topics import ADD, ALL, GONE, SOON_MS, TAKE, good, new_broker, put_all, shown, started
from tests.lites import PARENT, LiteClient, PoppedLite

WILDCARD = {"lite.bind.topic": PARENT, "lite.sub.wildcard": "true"}


def with_groups(broker: Broker) -> None:
    broker.ground.groups.put(GroupConfig("all", attributes=WILDCARD))
    broker.ground.groups.put(GroupConfig("few", attributes={**WILDCARD, "lite.sub.client.max.event.cnt": "10"}))


async def ready_broker(folder: Path) -> Broker:
    broker = new_broker(folder, lite_topics_max=10_000)
    await started(broker)
    with_groups(broker)
    return broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = await ready_broker(tmp_path)
    yield broker
    await broker.stop()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[LiteClient]:
    client = LiteClient(broker.address, "all")
    yield client
    await client.net.close()


async def drained(client: LiteClient, count: int) -> dict[str, list[str]]:
    """So many messages, acknowledged, by lite topic."""
    found: dict[str, list[str]] = defaultdict(list)
    async with asyncio.timeout(60):
        while sum(map(len, found.values())) < count:
            for popped in await client.pop_lite(poll_ms=5000):
                found[popped.lite].append(popped.body)
                assert (await client.ack_lite(popped)).code == 0
    return dict(found)


async def test_all_that_is_there_and_all_that_comes_is_handed_out_without_a_subscription(client: LiteClient) -> None:
    await put_all(client, "a:1", "b:1", "a:2")
    assert await drained(client, 3) == {"a": ["1", "2"], "b": ["1"]}
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    await put_all(client, "c:1")
    assert shown(await waiting) == ["c:1"]


async def test_clients_of_a_group_share_what_there_is_and_another_group_gets_all(
    broker: Broker, client: LiteClient
) -> None:
    second = LiteClient(broker.address, "all", "c2", net=client.net)
    few = LiteClient(broker.address, "few", net=client.net)
    for each in (client, second, few):
        await good(each, ALL)
    await put_all(client, *[f"{number}:x" for number in range(8)])
    ours: list[str] = []
    async with asyncio.timeout(20):
        while len(ours) < 8:
            for popped in await asyncio.gather(*[each.pop_lite(count=1, poll_ms=500) for each in (client, second)]):
                ours += map(str, popped)
    assert sorted(ours) == [f"{number}:x" for number in range(8)]
    assert (await drained(few, 8)).keys() == {str(number) for number in range(8)}


async def test_each_lite_topic_is_read_in_order_and_what_is_not_acknowledged_comes_again(client: LiteClient) -> None:
    await put_all(client, "a:1", "a:2", "b:1")
    first = [*await client.pop_lite(poll_ms=20_000, count=1), *await client.pop_lite(poll_ms=20_000, count=1)]
    assert shown(first) == ["a:1", "b:1"]
    assert await client.pop_lite() == [], "what is in flight holds the others of its lite topic back"
    held, done = sorted(first, key=str)
    assert (await client.ack_lite(done)).code == 0
    assert (await client.change_lite(held, SOON_MS)).code == 0
    [again] = await client.pop_lite(SOON_MS, poll_ms=20_000, count=1)
    assert str(again) == "a:1 again 1"
    [again] = await client.pop_lite(poll_ms=20_000, count=1)
    assert str(again) == "a:1 again 2"
    assert (await client.ack_lite(again)).code == 0
    assert shown(await client.pop_lite(poll_ms=20_000)) == ["a:2"]


async def test_what_has_no_room_in_memory_is_found_later(broker: Broker, client: LiteClient) -> None:
    few = LiteClient(broker.address, "few", net=client.net)
    names = [f"lite-{number}" for number in range(300)]
    await put_all(client, *[f"{name}:1" for name in names[:200]])
    got = await drained(few, 50)
    await put_all(client, *[f"{name}:1" for name in names[200:]], *[f"{name}:2" for name in names])
    for name, bodies in (await drained(few, 600 - sum(map(len, got.values())))).items():
        got[name] = [*got.get(name, ()), *bodies]
    assert got == {name: ["1", "2"] for name in names}
    group = broker.lite.wildcards.of("few", PARENT)
    await until(lambda: not group.behind and not group.ready)
    assert await few.pop_lite() == []


async def test_a_list_full_of_what_is_in_flight_keeps_nothing_from_a_pop_that_waits(
    broker: Broker, client: LiteClient
) -> None:
    """As where a client has many messages, and renews all their invisible times."""
    few = LiteClient(broker.address, "few", net=client.net)
    await put_all(client, *[f"{number}:1" for number in range(10)])
    held: list[PoppedLite] = []
    while len(held) < 10:
        held += await few.pop_lite(poll_ms=5000)
    for popped in held:
        assert (await few.change_lite(popped, 60_000)).code == 0
    await put_all(client, "late:1")
    assert broker.lite.wildcards.of("few", PARENT).behind
    assert shown(await few.pop_lite(poll_ms=5000)) == ["late:1"]


async def test_nobody_there_costs_a_short_list(broker: Broker, client: LiteClient) -> None:
    few = LiteClient(broker.address, "few", net=client.net)
    await few.pop_lite()
    await good(few, GONE)
    await put_all(client, *[f"{number}:1" for number in range(100)])
    assert len(broker.lite.wildcards.of("few", PARENT).ready) <= 10 + 64
    assert len(await drained(few, 100)) == 100


async def test_a_restart_hands_out_what_was_not_acknowledged(tmp_path: Path) -> None:
    broker = await ready_broker(tmp_path)
    client = LiteClient(broker.address, "all")
    await put_all(client, "a:1", "a:2", "b:1", "c:1")
    async with asyncio.timeout(20):
        popped = await client.pop_lite(poll_ms=5000)
        while len(popped) < 4:
            popped += await client.pop_lite(poll_ms=5000)
    for each in popped:
        if str(each) in ("a:1", "c:1"):
            assert (await client.ack_lite(each)).code == 0
    await client.net.close()
    await broker.stop()
    broker = await ready_broker(tmp_path)
    client = LiteClient(broker.address, "all")
    assert await drained(client, 2) == {"a": ["2"], "b": ["1"]}
    assert await client.pop_lite() == []
    await client.net.close()
    await broker.stop()


async def test_all_is_looked_at_again_when_the_light_queues_were_read_anew(broker: Broker, client: LiteClient) -> None:
    """What came before that and could not be read yet is told to nobody."""
    await put_all(client, "a:1")
    await drained(client, 1)
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    await until(lambda: len(broker.lite.hold) == 1)
    noted, broker.lite.subscriptions.noted = broker.lite.subscriptions.noted, lambda *_: None
    await put_all(client, "a:2")
    await until(lambda: broker.lite.queues.newest(PARENT, "a") is not None)
    broker.lite.subscriptions.noted = noted
    broker.lite.queues.on_ready()
    assert shown(await waiting) == ["a:2"]


async def test_a_list_of_lite_topics_is_refused(client: LiteClient) -> None:
    answer = await client.change_set(ADD, "a")
    assert (answer.code, "gets all lite topics" in (answer.remark or "")) == (Answer.ILLEGAL_OPERATION, True)
    await good(client, TAKE, "a")
    await good(client, ALL, "a")


async def test_its_clients_count_and_there_is_a_limit(broker: Broker, client: LiteClient) -> None:
    clients = [LiteClient(broker.address, "all", f"c{number}", net=client.net) for number in range(6)]
    for each in clients[:5]:
        assert await each.pop_lite() == []
    assert broker.lite.subscriptions.count == 5
    header = clients[5].lite_pop_header(1000, 0, 32)
    assert (await clients[5].ask(Code.POP_LITE_MESSAGE, header)).code == Answer.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    await good(clients[0], GONE)
    assert await clients[5].pop_lite() == []


async def test_a_group_that_is_no_wildcard_group_any_more_gets_what_its_clients_subscribe_to(
    broker: Broker, client: LiteClient
) -> None:
    await put_all(client, "a:1", "b:1")
    await drained(client, 2)
    broker.ground.groups.put(GroupConfig("all", attributes={"lite.bind.topic": PARENT}))
    await put_all(client, "a:2", "b:2")
    assert await client.pop_lite() == []
    await good(client, ADD, "b")
    assert shown(await client.pop_lite()) == ["b:2"]
    broker.ground.groups.put(GroupConfig("all", attributes=WILDCARD))
    assert shown(await client.pop_lite(poll_ms=5000)) == ["a:2"]


@pytest.mark.parametrize("seed", range(3))
async def test_each_message_is_acknowledged_once_and_in_order_whatever_clients_do(
    broker: Broker, client: LiteClient, seed: int
) -> None:
    """Clients leave messages, give them back and acknowledge them, while others come; the list has room for few."""
    dice = Random(seed)
    lites = [f"lite-{number}" for number in range(40)]
    done: dict[str, list[int]] = {name: [] for name in lites}
    sent = 15

    async def send() -> None:
        for number in range(sent):
            for name in dice.sample(lites, len(lites)):
                assert (await client.put(name, str(number))).code == 0

    async def consume(consumer: LiteClient) -> None:
        while any(len(each) < sent for each in done.values()):
            found = await consumer.pop_lite(500, poll_ms=500, count=dice.choice((1, 4, 32)))
            assert not any(int(popped.body) in done[popped.lite] for popped in found), "it was acknowledged"
            for popped in found:
                choice = dice.random()
                if choice < 0.1:
                    continue
                if choice < 0.2:
                    await consumer.change_lite(popped, dice.choice((10, 400)))
                elif (await consumer.ack_lite(popped)).code == 0 and is_done(popped):
                    done[popped.lite].append(int(popped.body))

    def is_done(popped: PoppedLite) -> bool:
        """Not if it came too late: then the message is another client's now, and perhaps done by that one."""
        moved = broker.ground.offsets.query("few", f"%LMQ%${PARENT}${popped.lite}", 0) > popped.number
        return moved and int(popped.body) not in done[popped.lite]

    consumers = [LiteClient(broker.address, "few", f"c{number}", net=client.net) for number in range(3)]
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(send())
        for each in consumers:
            group.create_task(consume(each))
    assert done == {name: list(range(sent)) for name in lites}


async def test_administrators_see_its_clients_and_have_it_look_at_all_again(broker: Broker, client: LiteClient) -> None:
    await put_all(client, "a:1")
    await drained(client, 1)
    topic = LiteTopicInfoHeader(parent_topic=PARENT, lite_topic="a")
    found = LiteTopicInfo.decode((await client.ask(Code.GET_LITE_TOPIC_INFO, topic)).body_bytes)
    assert [(each.client_id, each.group) for each in found.subscriber] == [("c", "all")]
    of_client = LiteClientInfoHeader(parent_topic=PARENT, group="all", client_id="c")
    said = LiteClientInfo.decode((await client.ask(Code.GET_LITE_CLIENT_INFO, of_client)).body_bytes)
    assert (said.lite_topic_count, said.lite_topic_set) == (1, [f"%LMQ%${PARENT}$*"])
    waiting = asyncio.create_task(client.pop_lite(poll_ms=20_000))
    await until(lambda: len(broker.lite.hold) == 1)
    broker.ground.offsets.commit("all", f"%LMQ%${PARENT}$a", 0, 0)
    assert (await client.ask(Code.TRIGGER_LITE_DISPATCH, LiteDispatchHeader(group="all"))).code == 0
    assert shown(await waiting) == ["a:1"]
