"""Our consumer over real sockets: from the master, from the slave while the master is gone, from the new master."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from rocketlake import Message, Producer, PushConsumer
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig, BrokerRole
from rocketlake.client.config import ClientConfig
from rocketlake.model.message import StoredMessage
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.store.config import StoreConfig


def broker(root: Path, namesrv: str, broker_id: int) -> Broker:
    config = BrokerConfig(
        broker_name="pair",
        broker_id=broker_id,
        broker_role=BrokerRole.SLAVE if broker_id else BrokerRole.ASYNC_MASTER,
        listen_port=0,
        fast_listen_port=0,
        store_root=root,
        namesrv_addresses=(namesrv,),
        slave_read_enabled=True,
    )
    return Broker(config, StoreConfig(commit_log_file_bytes=1 << 20, index_slots=100, index_entries=400))


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def send(namesrv: str, numbers: range) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        for number in numbers:
            await producer.send(Message("T", b"%d" % number))


async def test_a_consumer_reads_on_from_the_slave_and_from_the_new_master(tmp_path: Path) -> None:
    namesrv = NameServer(NameServerConfig(listen_port=0, kv_config_path=tmp_path / "kv.json"))
    await namesrv.start()
    master, slave = broker(tmp_path / "m", namesrv.address, 0), broker(tmp_path / "s", namesrv.address, 1)
    await master.start()
    await slave.start()
    seen: list[int] = []

    def note(messages: list[StoredMessage]) -> None:
        seen.extend(int(message.body) for message in messages)

    def consumer_of(group: str) -> PushConsumer:
        config = ClientConfig(route_interval_ms=200, persist_interval_ms=200, instance_name=group)
        made = PushConsumer(group, namesrv=namesrv.address, listener=note, from_where="first", client_config=config)
        made.subscribe("T")
        return made

    def kept_at(group: str, offset: int) -> bool:
        """The slave knows that the group is so far."""
        return sum(slave.offsets.queues(group, "T").values()) == offset

    try:
        await send(namesrv.address, range(10))
        async with consumer_of("late"):
            await until(lambda: len(set(seen)) == 10)
            await until(lambda: kept_at("late", 10))
        await send(namesrv.address, range(10, 20))
        async with consumer_of("g"):
            await until(lambda: len(set(seen)) == 20)
            await until(lambda: slave.store.max_physical_offset == master.store.max_physical_offset)
            await master.stop()
            seen.clear()
            async with consumer_of("late"):
                await until(lambda: set(seen) == set(range(10, 20)))
            await slave.become_master()
            seen.clear()
            await send(namesrv.address, range(20, 30))
            await until(lambda: set(range(20, 30)) <= set(seen))
        assert slave.topics.get("T") == master.topics.get("T")
    finally:
        await slave.stop()
        await master.stop()
        await namesrv.stop(0)
