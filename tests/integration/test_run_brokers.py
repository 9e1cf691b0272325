"""`rocketlake run brokers`: several processes, one cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer
from rocketlake.admin import Admin
from rocketlake.admin.results import TopicState
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.base.settings.config_file import read_properties
from rocketlake.cli import kept_process
from rocketlake.cli.broker_processes import BrokerProcesses
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer


@pytest.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[str]:
    server = NameServer(NameServerConfig(listen_port=0, kv_config_path=tmp_path / "kv.json"))
    await server.start()
    yield server.address
    await server.stop()


def several(folder: Path, namesrv: str | None, said: list[str], *lines: str) -> BrokerProcesses:
    conf = folder / "broker.conf"
    conf.write_text("\n".join(["brokerName=m", "listenPort=0", *lines]) + "\n")
    return BrokerProcesses(2, conf, namesrv=namesrv, store=folder / "store", say=said.append)


async def _known(admin: Admin, topic: str) -> TopicState:
    """The topic, once the name server knows it: a broker says a new topic, or a new port, after its answer."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await admin.topic(topic)
            except RocketLakeError:
                await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_new_topic_is_on_all_of_them_and_one_that_dies_comes_back_with_its_messages(
    tmp_path: Path, name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_process, "_AGAIN_SECONDS", 0.01)
    said: list[str] = []
    async with (
        several(tmp_path, name_server, said) as brokers,
        Admin(namesrv=name_server) as admin,
        Producer("p", namesrv=name_server) as producer,
    ):
        assert [each.name for each in await admin.brokers()] == brokers.names == ["m-1", "m-2"]
        sent = await producer.send(Message("orders", b"x"))
        async with asyncio.timeout(30):
            while sorted((await _known(admin, "orders")).settings) != brokers.names:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        holder = next(each for each in brokers.brokers if each.name == sent.queue.broker_name)
        os.kill(holder.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while not any("is up again" in text for text in said):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        queues = (await _known(admin, "orders")).queues
        assert sum(each.next_offset for each in queues) == 1
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "store").glob("*.conf")} == {0o600}


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["fastListenPort=1"], "fastListenPort"),
        (["haListenPort=1"], "haListenPort"),
        (["accountsPath=a.json"], "accountsPath"),
        (["brokerRole=SLAVE", "brokerId=1"], "brokerRole"),
        (["authenticationEnabled=true"], "by a user"),
    ],
)
def test_settings_of_one_broker_are_refused(tmp_path: Path, lines: list[str], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        several(tmp_path, "127.0.0.1:9", [], *lines)


def test_without_a_name_server_they_are_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name server"):
        several(tmp_path, None, [])


def test_each_of_them_serves_grpc_at_a_port_of_its_own(tmp_path: Path) -> None:
    several(tmp_path, "127.0.0.1:1", [], "grpcServerPort=18081")
    ports = [read_properties(tmp_path / "store" / f"m-{number}.conf")["grpcServerPort"] for number in (1, 2)]
    assert ports == ["18081", "18082"]
