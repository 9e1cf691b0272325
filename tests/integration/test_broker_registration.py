"""A broker and its name servers, in memory, with time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.route import Route
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.register import RegisterBrokerBody
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.bodies.topic import TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import GetRouteHeader, PutKvHeader, RegisterBrokerHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig

NAMESRV_HOSTS = ("10.0.0.1", "10.0.0.2")
BROKER_HOST = "10.0.0.9"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.77"))
        self.servers: dict[str, NameServer] = {}
        self.broker = self.new_broker()

    def new_broker(self, namesrv_hosts: Sequence[str] = NAMESRV_HOSTS, **settings: object) -> Broker:
        config = BrokerConfig(
            broker_name="b",
            cluster_name="C",
            listen_host=BROKER_HOST,
            fast_listen_port=0,
            store_root=Path("/s"),
            namesrv_addresses=tuple(f"{host}:9876" for host in namesrv_hosts),
            **settings,  # type: ignore[arg-type]
        )
        store = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100)
        return Broker(
            config,
            store,
            files=MemoryFiles(),
            clock=self.clock,
            network=self.net.host(BROKER_HOST),
            workers=InlineWorker,
        )

    async def start_namesrv(self, host: str, **settings: bool) -> None:
        config = NameServerConfig(
            listen_host=host, kv_config_path=Path("/n/kv.json"), admin_access=AdminAccess.ANY, **settings
        )
        server = NameServer(config, clock=self.clock, files=MemoryFiles(), network=self.net.host(host))
        await server.start()
        self.servers[host] = server

    async def stop_namesrv(self, host: str) -> None:
        await self.servers.pop(host).stop()

    async def ask(self, host: str, command: Command) -> Command:
        return await self.client.invoke(f"{host}:9876", command, 1e9)

    async def route(self, topic: str, host: str = NAMESRV_HOSTS[0]) -> Route | None:
        header = GetRouteHeader(topic=topic, accept_standard_json_only=True)
        answer = await self.ask(host, Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        return RouteBody.decode(answer.body_bytes).to_model() if answer.code == 0 else None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    stopping = asyncio.create_task(world.broker.stop())
    await world.clock.run_for(4000)  # a silent name server is waited for
    await stopping
    await world.client.close()
    for host in list(world.servers):
        await world.stop_namesrv(host)


async def test_every_name_server_knows_the_broker_when_it_has_started(world: World) -> None:
    for host in NAMESRV_HOSTS:
        await world.start_namesrv(host)
    await world.broker.start()
    for host in NAMESRV_HOSTS:
        route = await world.route("TBW102", host)
        assert route is not None
        assert [(queue.broker_name, queue.write_queues) for queue in route.queues] == [("b", 8)]
        assert route.brokers[0].addresses == {0: world.broker.address}


async def registered(world: World, address: str, epoch: int) -> dict[int, str]:
    """The addresses of group "g" after this broker has said that it is the master in this epoch."""
    header = RegisterBrokerHeader(
        broker_name="g", broker_addr=address, cluster_name="C", ha_server_addr="", broker_id=0
    )
    body = RegisterBrokerBody(topics=TopicTable(data_version=DataVersionBody(state_version=epoch)))
    answer = await world.ask(NAMESRV_HOSTS[0], Command.request(RequestCode.REGISTER_BROKER, header, body.encode()))
    assert answer.code == 0
    return world.servers[NAMESRV_HOSTS[0]].routes.brokers()["g"].addresses


async def test_a_master_that_hung_and_goes_on_takes_nothing_from_its_successor(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """On one machine: it registers once more as the master, before it hears of the newer epoch."""
    await world.start_namesrv(NAMESRV_HOSTS[0])
    old, new = {0: "10.0.0.8:1"}, {0: "10.0.0.8:2"}
    assert await registered(world, old[0], 1) == old
    assert await registered(world, new[0], 2) == new
    caplog.clear()
    assert await registered(world, old[0], 1) == new
    assert "is still alive" not in caplog.text
    assert await registered(world, old[0], 3) == old


async def test_a_name_server_out_of_reach_does_not_stop_the_start_and_is_told_later(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    assert await world.route("TBW102") is not None
    await world.start_namesrv(NAMESRV_HOSTS[1])
    assert await world.route("TBW102", NAMESRV_HOSTS[1]) is None
    await world.clock.run_for(31_000)
    assert await world.route("TBW102", NAMESRV_HOSTS[1]) is not None


async def test_a_new_topic_is_told_at_once(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    told: list[str] = []
    world.broker.topics.put(TopicConfig("orders", read_queues=3, write_queues=3))
    world.broker.cluster.registration.when_registered(lambda: told.append("done"))
    await world.clock.settle()
    await world.clock.settle()
    assert told == ["done"]
    route = await world.route("orders")
    assert route is not None and route.queues[0].read_queues == 3


async def test_topics_made_while_the_broker_starts_have_a_route(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    starting = asyncio.create_task(world.broker.start())
    made: list[str] = []
    while not starting.done():
        if (BROKER_HOST, 10911) in world.net.listeners:  # clients come as soon as the port is open
            made.append(f"T{len(made)}")
            world.broker.topics.put(TopicConfig(made[-1]))
        await asyncio.sleep(0)
    await world.clock.settle()
    assert len(made) > 5
    assert [name for name in made if await world.route(name) is None] == []


async def test_a_silent_name_server_holds_up_no_start_and_no_topic_at_another_one(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[1])
    silent = await world.net.host(NAMESRV_HOSTS[0]).listen(asyncio.Protocol, NAMESRV_HOSTS[0], 9876)
    starting = asyncio.create_task(world.broker.start())
    await world.clock.settle()
    for name in ("first", "second"):
        world.broker.topics.put(TopicConfig(name))
        await world.clock.settle()
        assert await world.route(name, NAMESRV_HOSTS[1]) is not None
    await world.clock.run_for(2000)
    assert starting.done()
    told: list[str] = []
    world.broker.cluster.registration.when_registered(lambda: told.append("done"))
    await world.clock.run_for(2000)
    assert told == ["done"]
    await world.clock.run_for(60_000)  # its registration has failed: from now on it is waited for less
    world.broker.topics.put(TopicConfig("third"))
    world.broker.cluster.registration.when_registered(lambda: told.append("soon"))
    await world.clock.run_for(200)
    assert told == ["done", "soon"]
    await silent.close()


async def test_a_name_server_that_goes_on_after_a_silence_is_told_all_that_it_missed(world: World) -> None:
    for host in NAMESRV_HOSTS:
        await world.start_namesrv(host, delete_topic_with_broker_registration=True)
    await world.broker.start()
    world.net.partition(BROKER_HOST, NAMESRV_HOSTS[0])
    for number in range(5):
        world.broker.topics.put(TopicConfig(f"T{number}"))
        await world.clock.run_for(100)
    world.broker.topics.delete("T1")
    await world.clock.run_for(1000)
    world.net.heal()
    await world.clock.run_for(1000)
    for host in NAMESRV_HOSTS:
        assert [number for number in range(5) if await world.route(f"T{number}", host) is None] == [1]


async def test_nobody_is_told_anything_behind_the_farewell(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    done: list[str] = []
    world.broker.cluster.registration.when_registered(lambda: done.append("before"))
    await world.broker.stop()
    world.broker.topics.put(TopicConfig("late"))
    world.broker.cluster.registration.when_registered(lambda: done.append("behind"))
    await world.broker.cluster.registration.register()
    await world.clock.run_for(1000)
    assert (await world.route("TBW102"), await world.route("late")) == (None, None)
    assert done == ["before", "behind"]


async def test_a_name_server_that_forgot_us_gets_the_whole_table_with_the_next_change(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    await world.stop_namesrv(NAMESRV_HOSTS[0])
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.clock.run_for(1000)
    world.broker.topics.put(TopicConfig("orders"))
    await world.clock.run_for(5000)
    assert await world.route("orders") is not None
    assert await world.route("TBW102") is not None


async def test_a_broker_that_stops_is_gone_from_the_routes(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    await world.broker.stop()
    await world.clock.settle()
    assert await world.route("TBW102") is None


async def test_topics_a_name_server_calls_ordered_stay_ordered(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    header = PutKvHeader(kv_namespace="ORDER_TOPIC_CONFIG", key="orders", value="b:4")
    await world.ask(NAMESRV_HOSTS[0], Command.request(RequestCode.PUT_KV_CONFIG, header))
    await world.broker.start()
    world.broker.topics.put(TopicConfig("orders"))
    await world.clock.run_for(1000)
    assert world.broker.topics.is_ordered("orders")


async def test_the_permission_of_the_broker_masks_that_of_its_topics(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0])
    world.broker = world.new_broker(permission=4)
    await world.broker.start()
    route = await world.route("BenchmarkTest")
    assert route is not None and route.queues[0].perm == 4


@pytest.mark.parametrize(("interval_ms", "before_ms", "after_ms"), [(1000, 9900, 10_100), (900_000, 59_900, 60_100)])
async def test_the_interval_is_kept_between_ten_and_sixty_seconds(
    world: World, interval_ms: int, before_ms: int, after_ms: int
) -> None:
    world.broker = world.new_broker(register_interval_ms=interval_ms)
    await world.broker.start()
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.clock.run_for(before_ms)
    assert await world.route("TBW102") is None
    await world.clock.run_for(after_ms - before_ms)
    assert await world.route("TBW102") is not None


async def test_a_broker_without_name_servers_starts_alone(world: World) -> None:
    world.broker = world.new_broker(namesrv_hosts=())
    await world.broker.start()
    assert world.broker.address.startswith(BROKER_HOST)


async def test_a_new_topic_takes_no_other_away_where_registrations_delete(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0], delete_topic_with_broker_registration=True)
    await world.broker.start()
    world.broker.topics.put(TopicConfig("orders"))
    await world.clock.run_for(1000)
    assert await world.route("orders") is not None
    assert await world.route("TBW102") is not None
    world.broker.topics.delete("orders")
    await world.clock.run_for(1000)
    assert await world.route("orders") is None
    assert await world.route("TBW102") is not None


async def test_without_single_registration_a_change_is_a_registration_of_its_topics(world: World) -> None:
    world.broker = world.new_broker(single_topic_register=False)
    await world.start_namesrv(NAMESRV_HOSTS[0])
    await world.broker.start()
    world.broker.topics.put(TopicConfig("orders"))
    await world.clock.run_for(1000)
    assert await world.route("orders") is not None
    assert await world.route("TBW102") is not None


async def test_a_whole_registration_that_takes_long_brings_no_deleted_topic_back(world: World) -> None:
    await world.start_namesrv(NAMESRV_HOSTS[0], delete_topic_with_broker_registration=True)
    await world.broker.start()
    names = [f"T{number}" for number in range(3000)]
    for name in names:
        world.broker.topics.put(TopicConfig(name))
    await world.clock.run_for(1000)
    long = asyncio.create_task(world.broker.cluster.registration.register())
    for _ in range(5):
        await asyncio.sleep(0)
    for name in names[1:]:
        world.broker.topics.delete(name)  # the registration that says so is short, and overtakes the long one
    await long
    await world.clock.run_for(1000)
    assert await world.route(names[0]) is not None
    assert [name for name in names[1:] if await world.route(name) is not None] == []
