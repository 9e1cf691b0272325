from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.store.config import StoreConfig
from rocketlake.store.retention import DiskView
from tests.unit.store.store_world import put_ok

STORE = StoreConfig(commit_log_file_bytes=4096, consume_queue_file_bytes=200, index_slots=11, index_entries=100)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    clock = ManualClock()
    broker = Broker(
        BrokerConfig(broker_name="b", listen_port=0, store_root=Path("/s")),
        STORE,
        files=MemoryFiles(clock=clock),
        clock=clock,
        workers=InlineWorker,
    )
    await broker.store.start()
    yield broker
    await broker.store.stop()


def drop(broker: Broker, files: int) -> None:
    """As if the oldest files had expired."""
    broker.store.log.list.flush()
    broker.store.retention.count_to_drop = lambda _disk: files  # type: ignore[method-assign]
    broker.store.retention._measured(DiskView({Path("/s"): 10.0}, []), None)


async def test_messages_deleted_unread_are_named_by_group_and_topic(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    store = broker.store
    put_ok(store, *[b"x" * 900] * 20, topic="orders")
    for group, offset in {"behind": 1, "ahead": 12, "done": 20}.items():
        broker.offsets.commit(group, "orders", 0, offset)
    drop(broker, 2)
    begin = store.min_offset("orders", 0)
    assert 2 < begin < 12
    lines = [text for text in caplog.messages if "has not read" in text]
    assert len(lines) == 1
    assert lines[0].startswith(f"group behind has not read {begin - 1} messages of topic orders that are deleted now")
    drop(broker, 1)
    second = store.min_offset("orders", 0)
    assert second > begin
    assert len([text for text in caplog.messages if "has not read" in text]) == 1
    broker._clock.advance(60_000)  # type: ignore[attr-defined]
    drop(broker, 1)
    third = store.min_offset("orders", 0)
    last = [text for text in caplog.messages if "group behind" in text][-1]
    assert f"has not read {third - begin} messages" in last


async def test_the_files_go_when_a_worker_has_read_what_the_count_lacks(caplog: pytest.LogCaptureFixture) -> None:
    clock, reads = ManualClock(), HandWorker()
    files = FaultyFiles(MemoryFiles(clock=clock))

    def workers(name: str) -> Worker:
        return reads if name == "store-reads" else InlineWorker(name)

    broker = Broker(
        BrokerConfig(broker_name="b", store_root=Path("/s")), STORE, files=files, clock=clock, workers=workers
    )
    store = broker.store
    await store.start()
    put_ok(store, *[b"x" * 900] * 20, topic="orders")
    store.queues.flush()
    broker.offsets.commit("behind", "orders", 0, 1)
    files.plan.add(Fault("pread_now", "consumequeue", times=2, error=None))
    drop(broker, 2)
    assert reads.pending
    while reads.pending:
        assert store.min_physical_offset == 0
        reads.run_one()
    start = store.min_offset("orders", 0)
    assert f"has not read {start - 1} messages of topic orders" in caplog.text
    await store.stop()


async def test_many_groups_are_counted(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    put_ok(broker.store, *[b"x" * 900] * 20, topic="orders")
    for number in range(25):
        broker.offsets.commit(f"g{number}", "orders", 0, 0)
    drop(broker, 1)
    begin = broker.store.min_offset("orders", 0)
    assert len([text for text in caplog.messages if "has not read" in text]) == 20
    assert f"5 more pairs of group and topic lose {5 * begin} unread messages" in caplog.text
