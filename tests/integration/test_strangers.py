"""Requests that a peer on another machine may not send while adminAccess has its default.

Requests that add are open to all. One that takes something from a topic, a group or a living broker hurts as a deletion
does, so it needs the same right (decision 0004).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import DELAY_TOPIC, HALF_TOPIC, OP_TOPIC, DataVersion, TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.bodies.group import GroupConfigList, GroupEntry
from rocketlake.protocol.bodies.register import RegisterBrokerBody
from rocketlake.protocol.bodies.topic import TopicConfigList, TopicEntry, TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.namesrv import RegisterBrokerHeader, UnregisterBrokerHeader
from rocketlake.protocol.headers.offset import UpdateOffsetHeader
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PullHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage

BROKER, NAMESRV, STRANGER, HERE = "10.0.0.1", "10.0.0.2", "10.6.6.6", "127.0.0.1"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.files = MemoryFiles(clock=self.clock)
        self.broker = self.new_broker()
        self.namesrv = NameServer(
            NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json")),
            clock=self.clock,
            files=self.files,
            network=self.net.host(NAMESRV),
        )
        self.clients = {host: NetClient(clock=self.clock, network=self.net.host(host)) for host in (STRANGER, HERE)}

    def new_broker(self) -> Broker:
        return Broker(
            BrokerConfig(
                broker_name="b",
                cluster_name="C",
                listen_host=BROKER,
                fast_listen_port=0,
                store_root=Path("/s"),
                namesrv_addresses=(f"{NAMESRV}:9876",),
            ),
            StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100),
            files=self.files,
            clock=self.clock,
            network=self.net.host(BROKER),
            workers=InlineWorker,
        )

    async def ask(self, command: Command, host: str = STRANGER, to: str = f"{BROKER}:10911") -> Command:
        return await self.clients[host].invoke(to, command, 1e9)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.namesrv.start()
    await world.broker.start()
    world.broker.topics.put(TopicConfig("T", 4, 4))
    world.broker.groups.put(GroupConfig("G"))
    await world.clock.run_for(6000)
    yield world
    for client in world.clients.values():
        await client.close()
    await world.broker.stop()
    await world.namesrv.stop(0)


def topic(perm: int = 6, queues: int = 4) -> Command:
    header = CreateTopicHeader(
        topic="T",
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_filter_type="SINGLE_TAG",
    )
    return Command.request(Code.UPDATE_AND_CREATE_TOPIC, header)


def topics(*given: TopicConfig) -> Command:
    body = TopicConfigList(topics=[TopicEntry.from_model(each) for each in given])
    return Command.request(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())


def group(**changes: object) -> Command:
    entry = GroupEntry.from_model(GroupConfig("G", **changes))  # type: ignore[arg-type]
    return Command.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())


def groups(*given: GroupConfig) -> Command:
    body = GroupConfigList(groups=[GroupEntry.from_model(each) for each in given])
    return Command.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body.encode())


def commit(offset: int) -> Command:
    header = UpdateOffsetHeader(consumer_group="G", topic="T", queue_id=0, commit_offset=offset)
    return Command.request(Code.UPDATE_CONSUMER_OFFSET, header)


def pull(name: str, commit_offset: int = 0, code: int = Code.PULL_MESSAGE) -> Command:
    header = PullHeader(
        consumer_group="G",
        topic=name,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET,
        commit_offset=commit_offset,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    return Command.request(code, header)


REFUSED = {
    "a topic loses its permissions": topic(perm=0),
    "a topic loses write permission": topic(perm=4),
    "a topic loses queues": topic(queues=0),
    "a topic of a list loses queues": topics(TopicConfig("New", 4, 4), TopicConfig("T", 1, 4)),
    "a group may not consume": group(consume_enable=False),
    "a group may not broadcast": group(consume_broadcast_enable=False),
    "a group loses its retries": group(retry_max_times=0),
    "a group of a list may not consume": groups(GroupConfig("New"), GroupConfig("G", consume_enable=False)),
    "a group misses what comes": commit(10**15),
    "messages that are not committed": pull(HALF_TOPIC),
    "messages that are not due": pull(DELAY_TOPIC),
    "what became of half messages": pull(OP_TOPIC, code=Code.LITE_PULL_MESSAGE),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_takes_something_is_refused_from_elsewhere_only(world: World, what: str) -> None:
    answer = await world.ask(REFUSED[what])
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "adminAccess=LOOPBACK" in (answer.remark or "")
    known, reader = world.broker.topics.get("T"), world.broker.groups.find("G")
    assert known is not None
    assert (known.perm, known.read_queues, known.write_queues) == (6, 4, 4)
    assert reader == GroupConfig("G")
    assert world.broker.topics.get("New") is None
    assert world.broker.groups.find("New") is None
    assert world.broker.offsets.query("G", "T", 0) == -1
    assert (await world.ask(REFUSED[what], HERE)).code != ResponseCode.NO_PERMISSION


async def test_what_adds_is_open_to_all(world: World) -> None:
    world.broker.store.put(PutMessage("T", 0, b"one"))
    for command in (topic(queues=8), topics(TopicConfig("New", 1, 1)), group(retry_max_times=20), commit(1)):
        assert (await world.ask(command)).code == ResponseCode.SUCCESS, command


async def test_a_pull_carries_no_group_behind_the_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.broker.store.put(PutMessage("T", 0, b"one"))
    await world.ask(pull("T", commit_offset=10**15))
    assert world.broker.offsets.query("G", "T", 0) == -1
    assert f"group G brings offset {10**15} of queue 0 of T, which ends at 1: it is not kept" in caplog.text
    await world.ask(pull("T", commit_offset=1))
    assert world.broker.offsets.query("G", "T", 0) == 1


# -- the name server ---------------------------------------------------------------------------------------------------


def registration(address: str, broker_id: int = 0) -> Command:
    body = RegisterBrokerBody(topics=TopicTable.from_model(DataVersion(counter=99, timestamp=1), []))
    header = RegisterBrokerHeader(
        broker_name="b", broker_addr=address, cluster_name="C", ha_server_addr="", broker_id=broker_id
    )
    return Command.request(Code.REGISTER_BROKER, header, body.encode())


FAREWELL = UnregisterBrokerHeader(broker_name="b", broker_addr=f"{BROKER}:10911", cluster_name="C", broker_id=0)


@pytest.mark.parametrize(
    "command",
    [
        registration(f"{STRANGER}:10911"),
        registration(f"{BROKER}:10911", broker_id=5),
        Command.request(Code.UNREGISTER_BROKER, FAREWELL),
    ],
    ids=["its place", "its address", "its farewell"],
)
async def test_a_living_broker_keeps_its_place(world: World, command: Command) -> None:
    answer = await world.ask(command, to=f"{NAMESRV}:9876")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert world.namesrv.routes.brokers()["b"].addresses == {0: f"{BROKER}:10911"}


async def test_two_brokers_of_one_machine_with_one_name_are_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """spark.md, S3: a second broker replaced the address of the first one without a word."""
    with caplog.at_level(logging.WARNING, "rocketlake.namesrv"):
        await world.ask(registration("127.0.0.1:20555"), HERE, to=f"{NAMESRV}:9876")
    assert "broker b (id 0) is at 127.0.0.1:20555 now" in caplog.text
    assert f"the one at {BROKER}:10911 is still alive" in caplog.text


async def test_the_place_of_a_broker_that_is_gone_is_free(world: World) -> None:
    await world.broker.stop()
    await world.ask(registration(f"{STRANGER}:10911"), to=f"{NAMESRV}:9876")
    assert world.namesrv.routes.brokers()["b"].addresses == {0: f"{STRANGER}:10911"}
    world.broker = world.new_broker()  # for the end of the test
    await world.broker.start()
