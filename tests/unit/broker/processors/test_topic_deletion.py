"""A topic that the store cannot delete is as it was: its messages, offsets and producer sequences are there."""

from __future__ import annotations

from pathlib import Path

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.sequence_mark import SequenceMark
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import DeleteTopicHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage
from rocketlake.testing.virtual_time import run_virtual

ADDRESS = "10.0.0.100:10911"


def test_a_disk_that_refuses_leaves_everything_as_it_was() -> None:
    clock = ManualClock()
    run_virtual(refused_and_tried_again(clock), clock)


async def refused_and_tried_again(clock: ManualClock) -> None:
    net = MemoryNet(1, clock=clock, delay_ms=(0.1, 1.0))
    config = BrokerConfig(
        broker_name="b",
        listen_host="10.0.0.100",
        listen_port=10911,
        fast_listen_port=0,
        store_root=Path("/store"),
        admin_access=AdminAccess.ANY,
    )
    files = FaultyFiles(MemoryFiles(clock=clock))
    store = StoreConfig(commit_log_file_bytes=65536, index_slots=10, index_entries=100)
    broker = Broker(config, store, files=files, clock=clock, network=net.host("10.0.0.100"), workers=InlineWorker)
    await broker.start()
    client = NetClient(None, clock, {}, network=net.host("10.0.1.1"))
    broker.topics.put(TopicConfig("T"))
    broker.store.put(PutMessage("T", 0, b"body"))
    for queue in list(broker.store.queues):
        queue.write_tail()  # its folder is there
    broker.offsets.commit("g", "T", 0, 1)
    mark = SequenceMark("query", 0, 0, "layout")
    broker.sending.sequences.recover("T", 0, mark, 5, None)

    async def delete() -> int:
        command = Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="T"))
        return (await client.invoke(ADDRESS, command, 60_000)).code

    files.plan.faults.append(Fault("rename", "consumequeue/T"))
    assert await delete() == ResponseCode.SYSTEM_ERROR
    assert broker.store.max_offset("T", 0) == 0
    assert files.exists(Path("/store/consumequeue/T"))

    files.plan.faults.clear()
    assert await delete() == ResponseCode.SUCCESS
    await clock.run_for(2000)
    assert not files.exists(Path("/store/consumequeue/T"))
    assert broker.topics.get("T") is None
    assert broker.store.max_offset("T", 0) == 0
    assert broker.offsets.query("g", "T", 0) == -1
    assert broker.sending.sequences.next_number("T", 0, mark) == 0
    assert "T@g" not in broker.offsets.to_text()
    await client.close()
    await broker.stop()
