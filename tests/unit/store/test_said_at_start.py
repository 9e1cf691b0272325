"""The log lines of a start on a log that a disk or a crash has damaged."""

from __future__ import annotations

import errno

import pytest

from rocketlake.base.disk.faulty import Fault
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

LOG = ROOT / "commitlog"
BODIES = [b"%03d" % number * 60 for number in range(60)]


async def test_a_log_file_of_zeros_after_a_clean_stop_is_said_with_its_range(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = await world.started()
    put_ok(store, *BODIES)
    await store.stop()
    world.disk.write_bytes(LOG / f"{4096:020d}", bytes(4096))
    store = await world.started()
    assert f"{4096:020d} holds only zeros: messages from 4096 to 8192 of the log" in caplog.text
    assert 0 < len(bodies_of(store)) < 60


async def test_the_bytes_of_a_torn_tail_are_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    store = await world.started()
    end = put_ok(store, *BODIES[:5])[-1].next_offset
    await world.killed()
    file = world.disk.open(LOG / f"{0:020d}")
    file.pwrite(b"x" * 77, end)
    await world.started()
    assert f"the log ends at {end}: 77 bytes behind it are no whole record" in caplog.text
    caplog.clear()
    await world.killed()
    await world.started()
    assert "cut off" not in caplog.text


async def test_a_write_that_failed_once_is_said_though_the_next_one_works(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = await world.started()
    world.files.plan.add(Fault("pwrite", "commitlog", error=errno.EIO, times=1))
    assert not store.put(message(b"one")).status.is_stored
    assert "a write of" in caplog.text
    put_ok(store, b"two")


async def test_puts_wake_the_flush_when_it_is_not_timed(world: World) -> None:
    store = await world.started(flush_timed=False, flush_interval_ms=600_000, flush_least_pages=0)
    result = put_ok(store, b"one")[0]
    await world.clock.settle()
    assert store.flushed_offset == result.next_offset
