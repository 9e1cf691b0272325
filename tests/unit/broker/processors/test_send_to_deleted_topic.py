"""A send that waits for its new topic to be saved, while another request deletes that topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import DeleteTopicHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.virtual_time import run_virtual
from tests.requests import send_header

ADDRESS = "10.0.0.100:10911"


def test_it_is_refused_and_nothing_is_stored() -> None:
    clock = ManualClock()
    run_virtual(sent_and_deleted(clock), clock)


async def sent_and_deleted(clock: ManualClock) -> None:
    saver = HandWorker()

    def workers(name: str) -> Worker:
        return saver if name == "table-saver" else InlineWorker(name)

    net = MemoryNet(1, clock=clock, delay_ms=(0.1, 1.0))
    config = BrokerConfig(
        broker_name="b",
        listen_host="10.0.0.100",
        listen_port=10911,
        fast_listen_port=0,
        store_root=Path("/store"),
        admin_access=AdminAccess.ANY,
    )
    store = StoreConfig(commit_log_file_bytes=65536, index_slots=10, index_entries=100)
    files = MemoryFiles(clock=clock)
    broker = Broker(config, store, files=files, clock=clock, network=net.host("10.0.0.100"), workers=workers)
    await broker.start()
    client = NetClient(None, clock, {}, network=net.host("10.0.1.1"))
    header = send_header(
        topic="NEW", default_topic_queue_nums=2, born_timestamp=clock.now_ms(), properties="UNIQ_KEY\x01K1\x02"
    )
    send = asyncio.ensure_future(
        client.invoke(ADDRESS, Command.request(RequestCode.SEND_MESSAGE_V2, header, b"body"), 60_000)
    )
    await clock.sleep(1)
    assert not send.done()
    delete = asyncio.ensure_future(
        client.invoke(
            ADDRESS, Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="NEW")), 60_000
        )
    )
    await clock.sleep(1)
    while not (send.done() and delete.done()):
        saver.run_all()
        await clock.sleep(1)
    assert (await delete).code == ResponseCode.SUCCESS
    assert (await send).code == ResponseCode.TOPIC_NOT_EXIST
    assert broker.store.max_offset("NEW", 0) == 0
    await client.close()
    saver_runs = asyncio.ensure_future(broker.stop())
    while not saver_runs.done():
        saver.run_all()
        await clock.sleep(0.1)
