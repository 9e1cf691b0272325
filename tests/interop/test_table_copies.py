"""Tables beside the log: our slave copies those of Apache's master, Apache's slave copies ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.apache import ApacheCluster, free_ports, run_driver, wait_for_port
from rocketlake import Message, Producer
from rocketlake.base.java import json_text
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig, BrokerRole
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.offset import UpdateOffsetHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from tests.interop.releases import jars_of, releases
from tests.requests import send_header

pytestmark = pytest.mark.interop


async def until(look: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until this is so."""
    for _tenth in range(int(seconds * 10)):
        if look():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


def our_broker(root: Path, namesrv: str, name: str, **settings: Any) -> Broker:
    """With a fast port: Java's slave asks there for topics."""
    (port,) = free_ports(1)
    config = BrokerConfig(broker_name=name, listen_port=port, store_root=root, namesrv_addresses=(namesrv,), **settings)
    return Broker(config, StoreConfig(commit_log_file_bytes=1 << 22, index_slots=1000, index_entries=4000))


async def change(client: NetClient, address: str) -> None:
    """A topic, a group, a message, an offset."""
    header = CreateTopicHeader(
        topic="Copied",
        default_topic="TBW102",
        read_queue_nums=3,
        write_queue_nums=3,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    group = GroupEntry(group_name="copied", retry_max_times=7).encode()
    offset = UpdateOffsetHeader(consumer_group="copied", topic="Copied", queue_id=0, commit_offset=1)
    for command in (
        Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header),
        Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group),
        Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic="Copied"), b"body"),
        Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, offset),
    ):
        answer = await client.invoke(address, command, 20_000)
        assert answer.code == 0, (command, answer.remark)


def saved(root: Path, name: str) -> Any:
    """The table that Apache's broker has written; {} before it has."""
    path = root / "store" / "config" / name
    try:
        return json_text.parse(path.read_text()) if path.exists() else {}
    except json_text.JsonError:
        return {}  # Java writes it in place


def _offset(slave: ApacheCluster) -> int | None:
    """The offset of the group in queue 0 that Apache's broker has written."""
    offsets = saved(slave.root, "consumerOffset.json").get("offsetTable", {}).get("Copied@copied", {})
    return next((int(offset) for queue_id, offset in offsets.items() if str(queue_id) == "0"), None)


@pytest.mark.parametrize("peer", releases("server"))
async def test_tables_are_copied_from_and_by_apaches_brokers(peer: str, tmp_path: Path) -> None:
    jars_of(peer)
    files = {"mappedFileSizeCommitLog": 1 << 22}
    master = ApacheCluster(tmp_path / "master", settings=files, peer=peer)
    slave = ApacheCluster(
        tmp_path / "slave",
        settings=files | {"namesrvAddr": master.namesrv, "brokerName": "ours-a", "brokerId": 1, "brokerRole": "SLAVE"},
        peer=peer,
    )
    slave.root.mkdir()
    our_master = our_broker(tmp_path / "m", master.namesrv, "ours-a")
    our_slave = our_broker(tmp_path / "s", master.namesrv, "apache-a", broker_id=1, broker_role=BrokerRole.SLAVE)
    client = NetClient()
    try:
        await asyncio.to_thread(master.start_namesrv)
        await our_master.start()
        await change(client, our_master.address)  # Java's slave copies ten seconds after its start, then each minute
        slave.launch_broker()
        await asyncio.to_thread(master.start_broker)
        await our_slave.start()
        await change(client, master.broker)
        await until(lambda: "Copied" in our_slave.topics, "the topic on our slave")
        await until(lambda: our_slave.offsets.query("copied", "Copied", 0) == 1, "the offset on our slave")
        await until(lambda: our_slave.groups.find("copied") is not None, "the group on our slave")
        found = our_slave.groups.find("copied")
        assert found is not None and found.retry_max_times == 7
        assert our_slave.topics.get("Copied") == TopicConfig("Copied", read_queues=3, write_queues=3)
        assert our_slave.health.is_green, our_slave.health.troubles

        await asyncio.to_thread(wait_for_port, slave.broker_port, slave._processes[0])
        await until(lambda: "Copied" in saved(slave.root, "topics.json").get("topicConfigTable", {}), "our topic")
        await until(
            lambda: "copied" in saved(slave.root, "subscriptionGroup.json").get("subscriptionGroupTable", {}), "group"
        )
        await until(lambda: _offset(slave) == 1, "our offset")
    finally:
        await client.close()
        await our_slave.stop()
        await our_master.stop()
        await asyncio.to_thread(slave.kill)
        await asyncio.to_thread(master.kill)


async def test_a_java_consumer_reads_from_our_slave_while_the_master_is_gone(apache_jars: None, tmp_path: Path) -> None:
    (namesrv_port,) = free_ports(1)
    namesrv = NameServer(NameServerConfig(listen_port=namesrv_port, kv_config_path=tmp_path / "kv.json"))
    await namesrv.start()
    reads = {"slave_read_enabled": True}
    master = our_broker(tmp_path / "m", namesrv.address, "pair", **reads)
    slave = our_broker(tmp_path / "s", namesrv.address, "pair", broker_id=1, broker_role=BrokerRole.SLAVE, **reads)
    try:
        await master.start()
        await slave.start()
        async with Producer("ours", namesrv=namesrv.address) as producer:
            for number in range(50):
                await producer.send(Message("FromSlave", b"%d" % number))
        end = master.store.max_physical_offset
        await until(lambda: slave.store.max_physical_offset == end and "FromSlave" in slave.topics, "the log")
        await master.stop()
        got = await asyncio.to_thread(
            run_driver, "Consume", namesrv.address, "FromSlave", "g_slave", "*", "concurrent", 50, 60, 0
        )
        assert got["distinct"] == 50
        assert sum(slave.offsets.queues("g_slave", "FromSlave").values()) == 50
    finally:
        await slave.stop()
        await master.stop()
        await namesrv.stop(0)
