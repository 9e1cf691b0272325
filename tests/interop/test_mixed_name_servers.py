"""Apache's broker on our name server, our broker on Apache's: clients of both sides find what they need."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, run_driver
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.store.config import StoreConfig

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("apache_jars")]


async def drive(namesrv: str, topic: str) -> None:
    """A Java producer and a Java consumer by this name server."""
    sent = await asyncio.to_thread(run_driver, "Produce", namesrv, topic, "sync", 50, 100, "A")
    assert sent["sent"] == 50
    got = await asyncio.to_thread(run_driver, "Consume", namesrv, topic, f"g_{topic}", "*", "concurrent", 50, 60, 0)
    assert got["distinct"] == 50


async def test_apaches_broker_on_our_name_server(tmp_path: Path) -> None:
    apache = ApacheCluster(tmp_path / "apache")
    apache.root.mkdir()
    ours = NameServer(NameServerConfig(listen_port=apache.namesrv_port, kv_config_path=tmp_path / "kvConfig.json"))
    await ours.start()
    try:
        await asyncio.to_thread(apache.start_broker)
        assert ours.routes.clusters() == {"DefaultCluster": ["apache-a"]}
        await drive(ours.address, "MixedA")
        await asyncio.to_thread(apache.stop)
        assert ours.routes.brokers() == {}
    finally:
        await asyncio.to_thread(apache.stop)
        await ours.stop(0)


async def test_our_broker_on_apaches_name_server(tmp_path: Path) -> None:
    apache = ApacheCluster(tmp_path / "apache")
    await asyncio.to_thread(apache.start_namesrv)
    config = BrokerConfig(
        broker_name="ours-a",
        listen_port=0,
        fast_listen_port=0,
        store_root=tmp_path / "store",
        namesrv_addresses=(apache.namesrv,),
    )
    ours = Broker(config, StoreConfig(commit_log_file_bytes=1 << 22, index_slots=1000, index_entries=4000))
    try:
        await ours.start()
        await drive(apache.namesrv, "MixedB")
        await ours.stop()
    finally:
        await asyncio.to_thread(apache.stop)
