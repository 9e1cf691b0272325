"""Saved offsets behind the end of the log, as after a power cut with ASYNC_FLUSH."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.net.memory_net import MemoryNet
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage

STORE = StoreConfig(commit_log_file_bytes=1 << 20, index_slots=7, index_entries=400)


def new_broker(disk: MemoryFiles, clock: ManualClock) -> Broker:
    config = BrokerConfig(store_root=Path("/store"), advertised_host="10.0.0.1")
    return Broker(
        config, STORE, files=disk, clock=clock, network=MemoryNet(clock=clock).host("10.0.0.1"), workers=InlineWorker
    )


async def test_a_group_that_was_ahead_of_the_log_sees_every_new_message(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    disk = MemoryFiles(clock=clock)
    broker = new_broker(disk, clock)
    await broker.start()
    for number in range(8):
        broker.store.put(PutMessage("T", 0, b"before%d" % number, b""))
    for topic, offset in (("T", 8), ("U", 5)):
        broker.offsets.commit("G", topic, 0, offset)
    broker.offsets.commit("H", "T", 0, 0)
    broker.offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 3)
    broker.offsets.save()
    assert broker.store.flushed_offset == 0
    after = disk.power_cut()
    await broker.stop()

    broker = new_broker(after, clock)
    await broker.start()
    for number in range(3):
        broker.store.put(PutMessage("T", 0, b"after%d" % number, b""))
    assert broker.offsets.query("G", "T", 0) == 0
    read = broker.store.get("T", 0, broker.offsets.query("G", "T", 0), 32, 1 << 20)
    assert [m.body for part in read.slices for m in decode_records(bytes(part))] == [b"after0", b"after1", b"after2"]

    # A consumer that lived through it holds 8: its commits do not count, its next pull is sent to the new place.
    assert broker.offsets.has_reset("G", "T", 0)
    assert not broker.offsets.has_reset("H", "T", 0)
    broker.offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)  # nobody pulls there
    assert broker.offsets.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0) == 1
    (line,) = [record.getMessage() for record in caplog.records if "group G" in record.getMessage()]
    assert "2 offsets lie behind the end" in line
    assert "T/0 8 -> 0" in line
    await broker.stop()


async def test_offsets_inside_their_queues_stay_as_they_are_over_a_restart() -> None:
    clock = ManualClock()
    disk = MemoryFiles(clock=clock)
    broker = new_broker(disk, clock)
    await broker.start()
    for number in range(8):
        broker.store.put(PutMessage("T", 0, b"%d" % number, b""))
    broker.offsets.commit("G", "T", 0, 8)
    broker.offsets.commit("Q_spark_start", "T", 0, 9)  # a query that starts at the end keeps 8 + 1
    await broker.stop()
    broker = new_broker(disk, clock)
    await broker.start()
    assert broker.offsets.query("G", "T", 0) == 8
    assert broker.offsets.query("Q_spark_start", "T", 0) == 9
    assert not broker.offsets.has_reset("G", "T", 0)
    await broker.stop()


async def test_first_offsets_of_a_spark_query_are_lowered_without_a_reset_that_nobody_would_take() -> None:
    clock = ManualClock()
    disk = MemoryFiles(clock=clock)
    broker = new_broker(disk, clock)
    await broker.start()
    broker.store.put(PutMessage("T", 0, b"one", b""))
    broker.offsets.commit("Q_spark_start", "T", 0, 40)
    await broker.stop()
    broker = new_broker(disk, clock)
    await broker.start()
    assert broker.offsets.query("Q_spark_start", "T", 0) == 2
    assert not broker.offsets.has_reset("Q_spark_start", "T", 0)
    await broker.stop()
