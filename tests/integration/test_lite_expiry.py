"""Lite topics expire: a broker on virtual time against a model, restarts and a change of the master included."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.group import GroupConfig
from rocketlake.model.lite import LITE_BIND, LITE_LIFE
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.bodies.lite import LiteAction
from rocketlake.protocol.response_code import ResponseCode as Answer
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from tests.integration.test_lite_failover import LiteGroup
from tests.lites import PARENT, LiteClient, PoppedLite
from tests.replica_group import ReplicaGroup
from tests.seeds import drawn

_T = TypeVar("_T")

HOST = "10.0.0.11"
LIFE_MS, LINGER_MS, SWEEP_MS, ROUNDED_MS = 60_000, 300_000, 1000, 1000
SOON_MS = 3000
LARGE = 100_000
LITES = ("a", "b", "c")
QUICK: dict[str, Any] = {"lite_life_min_ms": 0, "lite_check_interval_ms": SWEEP_MS}


class Expiring:
    """A broker whose lite topics live for a minute, and a client of group g that subscribes to a, b and c."""

    def __init__(self) -> None:
        self.clock = ManualClock(settle_turns=20)
        self.net = MemoryNet(clock=self.clock)
        self.files = MemoryFiles(clock=self.clock)
        self.client = LiteClient(f"{HOST}:10911", net=NetClient(clock=self.clock, network=self.net.host("10.0.0.77")))
        self.client.clock = self.clock  # type: ignore[assignment]
        self.broker: Broker

    async def start(self) -> None:
        config = BrokerConfig(broker_name="b", listen_host=HOST, fast_listen_port=0, store_root=Path("/s"), **QUICK)
        small = {"commit_log_file_bytes": 256 * 1024, "consume_queue_file_bytes": 100}
        store = StoreConfig(index_slots=10, index_entries=100, **small)
        self.broker = Broker(
            config,
            store,
            files=self.files,
            clock=self.clock,
            network=self.net.host(HOST),
            workers=InlineWorker,
        )
        await self.broker.start()
        if self.broker.topics.get(PARENT) is None:
            self.live(1)
            self.broker.ground.groups.put(GroupConfig("g", attributes={LITE_BIND: PARENT}))
        while not self.broker.lite.queues.is_ready:
            await self.clock.run_for(20)
        assert (await self.through(self.client.change_set(LiteAction.COMPLETE_ADD, *LITES))).code == 0

    def live(self, minutes: int) -> None:
        attributes = {"message.type": "LITE", LITE_LIFE: str(minutes)}
        self.broker.topics.put(TopicConfig(PARENT, read_queues=2, write_queues=2, attributes=attributes))

    async def stop(self) -> None:
        stopped = asyncio.ensure_future(self.broker.stop())
        while not stopped.done():
            await self.clock.run_for(20)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def through(self, call: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.ensure_future(call)
        while not task.done():
            await self.clock.run_for(5)
        return task.result()

    async def pass_time(self, ms: int) -> None:
        """The wall clock goes on, and duties have some turns."""
        self.clock.jump_wall(ms)
        await self.clock.run_for(SWEEP_MS + 100)

    async def send(self, *texts: str) -> None:
        for text in texts:
            lite, _, body = text.partition(":")
            answer = await self.through(self.client.put(lite, body))
            assert answer.code == 0, answer.remark

    def drop_files(self) -> None:
        """All files of the log that are flushed go but the last one, read or not, as from a disk that is too full."""
        store = self.broker.ground.store
        store.retention._drop(len(store.log.list.files) - 1)

    async def pop(self, count: int = 32) -> list[PoppedLite]:
        return await self.through(self.client.pop_lite(SOON_MS, poll_ms=100, count=count))

    async def ack(self, popped: PoppedLite) -> int:
        return (await self.through(self.client.ack_lite(popped))).code

    async def popped(self, count: int = 32) -> list[str]:
        """What one pop gives, all of it acknowledged."""
        found = await self.pop(count)
        for each in found:
            assert await self.ack(each) == 0
        return [str(each) for each in found]

    def offset(self, lite: str) -> int:
        return self.broker.ground.offsets.query("g", f"%LMQ%${PARENT}${lite}", 0)


@pytest.fixture
async def lites() -> AsyncIterator[Expiring]:
    lites = Expiring()
    await lites.start()
    yield lites
    await lites.client.net.close()
    await lites.stop()


async def test_a_lite_topic_without_a_message_for_so_long_is_gone(lites: Expiring) -> None:
    await lites.send("a:1")
    await lites.pass_time(LIFE_MS // 2)
    await lites.send("b:1")
    [a, b] = sorted(await lites.pop(), key=str)
    assert (str(a), str(b)) == ("a:1", "b:1")
    await lites.pass_time(LIFE_MS // 2)
    assert [str(each) for each in await lites.pop()] == ["b:1 again 1"]
    assert await lites.ack(a) == Answer.NO_MESSAGE


async def test_a_message_in_time_keeps_those_before_it(lites: Expiring) -> None:
    await lites.send("a:1")
    await lites.pass_time(LIFE_MS - 5000)
    await lites.send("a:2")
    await lites.pass_time(LIFE_MS - 5000)
    assert await lites.popped() == ["a:1", "a:2"]


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("is_walked", [False, True])
async def test_a_later_message_begins_anew(lites: Expiring, *, is_forgotten: bool, is_walked: bool) -> None:
    """`is_walked`: the broker knows from a pop where the expired messages lie."""
    await lites.send("a:1", "a:2", "a:3")
    if is_walked:
        assert len(await lites.pop()) == 3
    await lites.pass_time(LIFE_MS + SOON_MS + (LINGER_MS if is_forgotten else 0))
    assert len(lites.broker.lite.queues) == (0 if is_forgotten else 1)
    await lites.send("a:4", "a:5")
    assert await lites.popped() == ["a:4", "a:5"]
    await lites.restart()
    await lites.send("a:6")
    assert await lites.popped() == ["a:6"]


async def test_entries_and_offsets_are_forgotten(lites: Expiring) -> None:
    await lites.send("a:1", "b:1", "c:1")
    assert sorted(await lites.popped()) == ["a:1", "b:1", "c:1"]
    lites.broker.ground.offsets.commit("g", "Other", 0, 7)
    await lites.pass_time(LIFE_MS // 2)
    await lites.send("c:2")
    await lites.pass_time(LIFE_MS // 2 + LINGER_MS + 5000)
    assert len(lites.broker.lite.queues) == 1
    assert (lites.offset("a"), lites.offset("b")) == (-1, -1)
    assert lites.offset("c") > 0
    await lites.pass_time(LIFE_MS)
    assert lites.broker.ground.offsets.topics_of("g") == ["Other"]
    assert list(lites.broker.lite._orders) == []
    assert lites.broker.lite.subscriptions.count == 3
    await lites.restart()
    assert await lites.popped() == []
    await lites.pass_time(0)
    assert len(lites.broker.lite.queues) == 0


async def test_a_longer_life_is_given_to_those_that_live(lites: Expiring) -> None:
    await lites.send("a:1")
    await lites.pass_time(LIFE_MS // 2)
    lites.live(-1)
    await lites.pass_time(100 * LIFE_MS)
    assert await lites.popped() == ["a:1"]


@pytest.mark.parametrize(("other", "left"), [("a", ["a:8"]), ("unread", [])])
async def test_messages_that_have_left_the_log_hide_none_behind_them(
    lites: Expiring, other: str, left: list[str]
) -> None:
    """The group knows from a pop where they lay. `other`: the lite topic of the last messages."""
    lites.live(-1)
    large = LARGE * "x"
    await lites.send(*[f"a:{number} {large}" for number in range(5)])
    assert len(await lites.pop(count=1)) == 1
    await lites.send(*[f"{other}:{number} {large}" for number in range(5, 10)], f"{other}:10")
    await lites.clock.run_for(SOON_MS)
    lites.drop_files()
    found = await lites.popped(count=1)
    assert [each.partition(" ")[0] for each in found] == left
    await lites.send("a:11")
    for _ in range(2):  # what the group knows already comes first
        found += await lites.popped()
    assert found[-1] == "a:11"


async def test_a_wildcard_group_finds_what_is_left_when_files_go_while_it_looks(
    lites: Expiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first client has the broker read all that is stored, and the oldest of that goes in between."""
    lites.live(-1)
    attributes = {LITE_BIND: PARENT, "lite.sub.wildcard": "true"}
    lites.broker.ground.groups.put(GroupConfig("g", attributes=attributes))
    await lites.send(*[f"a:{number} {LARGE * 'x'}" for number in range(10)], "a:10", "b:1", "c:1")
    await lites.clock.run_for(SOON_MS)
    read = MessageStore.read

    async def read_as_files_go(store: MessageStore, call: Callable[[], Any]) -> Any:
        found = await read(store, call)
        lites.drop_files()
        return found

    monkeypatch.setattr(MessageStore, "read", read_as_files_go)
    found: list[str] = []
    for _ in range(4):
        found += [each.lite for each in await lites.pop()]
    assert set(found) == {"a", "b", "c"}


@pytest.mark.parametrize("seed", drawn("lite expiry", 6))
async def test_what_is_alive_comes_and_nothing_else(lites: Expiring, seed: int) -> None:
    """Against a model: each lite topic has the messages since it last expired that are not acknowledged."""
    draw = random.Random(seed)
    left: defaultdict[str, list[str]] = defaultdict(list)
    last_ms: dict[str, int] = dict.fromkeys(LITES, 0)
    for number in range(60):
        ages = [lites.clock.now_ms() - last_ms[lite] - LIFE_MS for lite in LITES]
        if any(-1000 < age < ROUNDED_MS + 1000 for age in ages):
            await lites.pass_time(ROUNDED_MS + 2000)  # neither alive nor expired for sure
        for lite in LITES:
            if lites.clock.now_ms() - last_ms[lite] > LIFE_MS:
                left[lite].clear()
        match draw.choice(("send", "send", "send", "take", "take", "wait", "restart")):
            case "send":
                lite = draw.choice(LITES)
                await lites.send(f"{lite}:{number}")
                left[lite].append(f"{lite}:{number}")
                last_ms[lite] = lites.clock.now_ms()
            case "take":
                found = await lites.pop()
                for lite in LITES:
                    of_lite = [each for each in found if each.lite == lite]
                    assert bool(of_lite) == bool(left[lite])
                    assert [f"{lite}:{each.body}" for each in of_lite] == left[lite][: len(of_lite)]
                    for each in of_lite[: draw.randrange(4)]:
                        assert await lites.ack(each) == 0
                        left[lite].pop(0)
                await lites.clock.run_for(SOON_MS + 100)
            case "wait":
                await lites.pass_time(draw.choice((1000, LIFE_MS // 2, LIFE_MS // 2, LIFE_MS, 2 * LIFE_MS, LINGER_MS)))
            case "restart":
                await lites.restart()
    await lites.pass_time(LIFE_MS + LINGER_MS + 5000)
    assert len(lites.broker.lite.queues) == 0
    assert [lites.offset(lite) for lite in LITES] == [-1] * 3


async def test_a_new_master_agrees_on_what_has_expired() -> None:
    group = ReplicaGroup(3, **QUICK)
    await group.start()
    lites = LiteGroup(group)
    await lites.make()
    await lites.put_topic(f"+{LITE_LIFE}=1")
    await lites.send_all(0, 1, 2, 3)  # lite topics a, b, c, a
    await lites.ack_some()
    group.clock.jump_wall(LIFE_MS)
    await lites.send_all(4)  # b begins anew
    await lites.lose_the_master()
    await lites.subscribe()
    await lites.send_all(5)  # so does c
    lites.got.clear()
    await lites.take_all({4, 5})
    assert dict(lites.got) == {"b": [4], "c": [5]}
    group.brokers[group.master].ground.offsets.commit("g", "Other", 0, 7)  # an empty table would not be believed
    group.clock.jump_wall(LIFE_MS + LINGER_MS + 2 * ROUNDED_MS)
    running = [broker for broker in group.brokers.values() if broker.is_running]
    assert len(running) == 2
    await group.until(lambda: all(broker.ground.offsets.topics_of("g") == ["Other"] for broker in running))
    await group.stop()
