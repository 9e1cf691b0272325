"""A cluster in one process, and the fixtures that hand one to any project's tests."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interop.apache import free_ports
from rocketlake import Message, Producer
from rocketlake.admin import Admin
from rocketlake.base.errors import RocketLakeError, StoreError, UsageError
from rocketlake.broker.cluster.outbound import Outbound
from rocketlake.standalone import Standalone
from rocketlake.testing import plugin
from rocketlake.testing.cluster import EmbeddedCluster
from tests.stored import all_stored

# An installed RocketLake brings them by its entry point; here they come from the source tree, whether installed or not.
rocketlake_standalone = plugin.rocketlake_standalone
rocketlake_cluster = plugin.rocketlake_cluster


async def bodies(namesrv: str, topic: str) -> list[bytes]:
    return sorted(message.body for message in await all_stored(namesrv, topic))


async def test_messages_outlive_a_stop_and_a_start(tmp_path: Path) -> None:
    for body in (b"1", b"2"):
        async with Standalone(tmp_path) as cluster, Producer("senders", namesrv=cluster.namesrv_address) as producer:
            await producer.send(Message("T", body))
    async with Standalone(str(tmp_path)) as cluster:
        assert await bodies(cluster.namesrv_address, "T") == [b"1", b"2"]


async def test_two_clusters_stand_beside_each_other(tmp_path: Path) -> None:
    async with Standalone(tmp_path / "a") as one, Standalone(tmp_path / "b") as two:
        async with Producer("senders", namesrv=one.namesrv_address) as producer:
            await producer.send(Message("T", b"one"))
        async with Producer("senders", namesrv=two.namesrv_address) as producer:
            await producer.send(Message("T", b"two"))
        assert await bodies(one.namesrv_address, "T") == [b"one"]
        assert await bodies(two.namesrv_address, "T") == [b"two"]


async def test_settings_are_those_of_a_broker_conf(tmp_path: Path) -> None:
    async with Standalone(tmp_path, settings={"brokerName": "other", "flushDiskType": "SYNC_FLUSH"}) as cluster:
        assert cluster.broker.config.now.broker_name == "other"
    with pytest.raises(UsageError, match="flushDiskTyp"):
        await Standalone(tmp_path / "x", settings={"flushDiskTyp": "SYNC_FLUSH"}).start()


async def test_a_start_that_fails_leaves_no_port_and_no_lock_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = Standalone(tmp_path, broker_port=port)
        with pytest.raises(RocketLakeError, match=str(port)):
            await failed.start()
    namesrv_port = int(failed.namesrv_address.rpartition(":")[2])
    async with Standalone(tmp_path, namesrv_port=namesrv_port, broker_port=port) as cluster:
        assert cluster.broker_address == f"127.0.0.1:{port}"


async def test_no_port_for_slaves_is_opened_unless_they_may_come(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with Standalone(tmp_path, namesrv_port=port + 1, broker_port=port) as alone:
        assert (alone.namesrv_address, alone.broker_address) == (f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}")
    for settings in ({"brokerRole": "SYNC_MASTER"}, {"haListenPort": "0"}):
        async with Standalone(tmp_path, settings=settings) as master:
            socket.create_connection(("127.0.0.1", master.broker.replicas.leader.port)).close()


async def test_one_folder_serves_one_cluster(tmp_path: Path) -> None:
    async with Standalone(tmp_path):
        with pytest.raises(StoreError, match=str(tmp_path)):
            await Standalone(tmp_path).start()


async def test_the_async_fixture_is_a_running_cluster(rocketlake_standalone: Standalone) -> None:
    async with Producer("senders", namesrv=rocketlake_standalone.namesrv_address) as producer:
        await producer.send(Message("T", b"x"))
    assert await bodies(rocketlake_standalone.namesrv_address, "T") == [b"x"]


def test_the_threaded_fixture_is_a_running_cluster(rocketlake_cluster: EmbeddedCluster) -> None:
    rocketlake_cluster.send("T", [b"a", b"b"], queue=0)
    assert rocketlake_cluster.run(bodies(rocketlake_cluster.namesrv, "T")) == [b"a", b"b"]


async def test_a_topic_of_the_threaded_fixture_is_found_though_its_broker_registers_it_late(
    rocketlake_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Outbound.register_topic

    async def late(self: Outbound, *about: Any) -> Mapping[str, str]:
        await asyncio.sleep(0.2)
        return await register(self, *about)

    monkeypatch.setattr(Outbound, "register_topic", late)
    rocketlake_cluster.send("T", [b"a"])
    async with Admin(namesrv=rocketlake_cluster.namesrv) as admin:
        assert await admin.topics() == ["T"]


_USERS_TESTS = """
import pytest
from rocketlake import Message, Producer


MARK
async def test_async(rocketlake_standalone):
    async with Producer("shop", namesrv=rocketlake_standalone.namesrv_address) as producer:
        await producer.send(Message("orders", b"one"))


def test_threaded(rocketlake_cluster):
    rocketlake_cluster.send("orders", [b"one"])
"""


@pytest.mark.long
@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_fixtures_work_in_both_modes_of_pytest_asyncio(tmp_path: Path, mode: str) -> None:
    (tmp_path / "test_users.py").write_text(_USERS_TESTS.replace("MARK", "@pytest.mark.asyncio" * (mode == "strict")))
    words = ["-p", "no:rocketlake", "-p", "rocketlake.testing.plugin", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-o", f"asyncio_mode={mode}", "test_users.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
