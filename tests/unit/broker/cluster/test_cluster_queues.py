from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError
from rocketlake.broker.cluster.cluster_queues import ClusterQueues
from rocketlake.broker.cluster.outbound import Identity, Outbound
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.net.client import NetClient

NOBODY = "127.0.0.1:1"


@pytest.fixture
async def net() -> AsyncIterator[NetClient]:
    net = NetClient()
    yield net
    await net.close()


def make_queues(net: NetClient, *namesrv: str) -> ClusterQueues:
    config = LiveConfig(BrokerConfig(broker_name="b", namesrv_addresses=namesrv))
    topics = [TopicConfig("T", read_queues=2, write_queues=4), TopicConfig("W", read_queues=2, perm=Perm.WRITE)]
    table = TopicTable(Path("/topics.json"), MemoryFiles(), ManualClock(), topics)
    return ClusterQueues(config, table, Outbound(net, lambda: Identity("c", "b", 0, "127.0.0.1:2", "127.0.0.1:3")))


async def test_a_broker_without_name_servers_is_its_own_cluster(net: NetClient) -> None:
    queues = make_queues(net)
    assert await queues.find("T") == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    assert await queues.find("W") == []
    assert await queues.find("nothing") is None


async def test_no_name_server_in_reach_is_an_error_not_an_empty_answer(net: NetClient) -> None:
    with pytest.raises(LinkError):
        await make_queues(net, NOBODY, NOBODY).find("T")
