from __future__ import annotations

import contextlib
import errno
import random

import pytest

from rocketlake.base.clock import Millis
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.errors import StoreError
from rocketlake.codec.property_text import encode
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.codec.record_layout import RecordError
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

LOG = ROOT / "commitlog"
FIRST = LOG / f"{0:020d}"


def bodies(count: int) -> list[bytes]:
    return [b"%03d" % number * 60 for number in range(count)]


async def crashed(world: World, count: int, **settings: object) -> list[int]:
    """A store with `count` messages was killed; gives their physical offsets and, last, the end of the log."""
    store = await world.started(**settings)
    results = put_ok(store, *bodies(count))
    await world.killed()
    return [result.physical_offset for result in results] + [results[-1].next_offset]


async def stopped(world: World, count: int) -> None:
    store = await world.started()
    put_ok(store, *bodies(count))
    await store.stop()


def damage(world: World, offset: int, data: bytes) -> None:
    """Overwrite bytes of the log as a failing disk would: they are safe on disk as they are now."""
    start = offset - offset % 4096
    file = world.disk.open(LOG / f"{start:020d}")
    file.pwrite(data, offset - start)
    file.sync()


def written(store: MessageStore) -> bytes:
    return b"".join(bytes(mapped.view[: mapped.wrote]) for mapped in store.log.list.files)


# -- after a kill: all that was written is there -----------------------------------------------------------------------


async def test_everything_written_before_a_kill_is_there(world: World) -> None:
    await crashed(world, 50)
    store = await world.started()
    assert bodies_of(store) == bodies(50)
    assert put_ok(store, b"next")[0].queue_offset == 50


@pytest.mark.parametrize("kept", range(0, 276, 23))
async def test_a_torn_tail_is_cut_at_the_last_whole_record(world: World, kept: int) -> None:
    offsets = await crashed(world, 10)
    tail = offsets[-2] + kept
    damage(world, tail, bytes(offsets[-1] - tail))
    world.disk.remove(ROOT / "consumequeue" / "T" / "0" / f"{0:020d}")
    store = await world.started()
    survivors = 10 if kept >= 271 else 9
    assert bodies_of(store) == bodies(survivors)
    assert store.max_physical_offset == offsets[survivors]
    last = store.log.list.last
    assert last is not None
    assert not any(last.view[last.wrote :])


@pytest.mark.parametrize("lost", [1, 10, 40])
async def test_a_last_record_that_lost_the_end_of_its_properties_is_cut(world: World, lost: int) -> None:
    """No checksum covers the properties: a power cut leaves zeros, and the record would lack half of its keys."""
    store = await world.started()
    keyed = message(b"keyed", properties=encode({"KEYS": "order-1", "UNIQ_KEY": "0A" * 16}))
    first, second = (store.put(keyed) for _ in range(2))
    await world.killed()
    damage(world, second.next_offset - lost, bytes(lost))
    store = await world.started()
    assert store.max_physical_offset == first.next_offset
    assert bodies_of(store) == [b"keyed"]
    assert len(store.query("T", "order-1", 9, Millis(0), Millis(2**60)).slices) == 1


@pytest.mark.parametrize("behind", [0, 1])
async def test_a_property_that_ends_with_a_zero_is_no_torn_one(world: World, behind: int) -> None:
    store = await world.started()
    odd = message(b"odd", properties=encode({"odd": "\0"}))
    for each in (odd, *[message(b"behind")] * behind):
        store.put(each)
    await world.killed()
    assert len(bodies_of(await world.started())) == 1 + behind


async def test_queues_ahead_of_the_log_are_cut(world: World) -> None:
    offsets = await crashed(world, 10)
    damage(world, offsets[7], bytes(300))
    store = await world.started()
    assert store.max_offset("T", 0) == 7
    assert bodies_of(store) == bodies(7)
    assert [result.queue_offset for result in put_ok(store, b"a", b"b")] == [7, 8]
    assert bodies_of(store) == [*bodies(7), b"a", b"b"]


async def test_queues_behind_the_log_catch_up(world: World) -> None:
    store = await world.started()
    world.files.plan.add(Fault("pwrite", "consumequeue", error=errno.ENOSPC))
    put_ok(store, b"one")
    await world.killed()
    assert bodies_of(await world.started()) == [b"one"]


@pytest.mark.parametrize("clean", [True, False])
async def test_lost_queues_are_built_again_from_the_log(world: World, clean: bool) -> None:
    if clean:
        await stopped(world, 50)
    else:
        await crashed(world, 50)
    folder = ROOT / "consumequeue" / "T" / "0"
    for name in world.disk.list_dir(folder):
        world.disk.remove(folder / name)
    store = await world.started()
    assert bodies_of(store) == bodies(50)


async def test_old_bytes_behind_a_cut_never_come_back(world: World) -> None:
    """A torn record is replaced by one of the same length: what once followed it must not follow the new one."""
    offsets = await crashed(world, 10)
    damage(world, offsets[4], bytes(4))
    store = await world.started()
    put_ok(store, b"new" * 60)
    await world.killed()
    assert bodies_of(await world.started()) == [*bodies(4), b"new" * 60]


async def test_an_unused_file_made_ahead_is_no_harm(world: World) -> None:
    offsets = await crashed(world, 3)
    assert len(world.disk.list_dir(LOG)) == 2
    store = await world.started()
    assert store.max_physical_offset == offsets[-1]
    assert bodies_of(store) == bodies(3)


async def test_an_empty_store_that_was_killed_starts_empty(world: World) -> None:
    await world.started()
    await world.killed()
    store = await world.started()
    assert store.max_physical_offset == 0
    assert put_ok(store, b"x")[0].physical_offset == 0


async def test_without_a_log_there_are_no_queues(world: World) -> None:
    await stopped(world, 20)
    for name in world.disk.list_dir(LOG):
        world.disk.remove(LOG / name)
    store = await world.started()
    assert store.max_offset("T", 0) == 0
    assert put_ok(store, b"x")[0].queue_offset == 0


async def test_recovering_twice_changes_nothing(world: World) -> None:
    await crashed(world, 50)
    first = written(await world.started())
    await world.killed()
    assert written(await world.started()) == first


async def test_the_recovery_itself_may_be_killed(world: World) -> None:
    await crashed(world, 50)
    for after in range(0, 12, 3):
        world.files.plan.add(Fault("sync", after=after, times=1))
        try:
            await world.started()
        except Exception as error:
            assert "Input/output" in str(error) or "failed" in str(error)
        await world.killed()
    assert bodies_of(await world.started()) == bodies(50)


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("part", ["commitlog", "consumequeue"])
async def test_a_crash_while_the_torn_end_is_erased_leaves_a_file_that_the_next_start_lengthens(
    world: World, part: str, is_power_cut: bool
) -> None:
    store = await world.started(queue_flush_thorough_interval_ms=1000)
    expected = bodies(25)
    end = put_ok(store, *expected)[-1].next_offset
    await world.clock.run_for(20_000)
    await world.killed()
    damage(world, end, b"torn")
    queue = world.disk.open(ROOT / "consumequeue/T/0" / f"{400:020d}")
    queue.pwrite(b"torn", queue.size - 4)
    world.files.plan.add(Fault("truncate", part, after=1))  # the one that would make the file long again
    with pytest.raises(StoreError, match="erase"):
        await world.started()
    assert (queue.size, world.disk.size(LOG / f"{end - end % 4096:020d}")) != (200, 4096)
    await (world.power_cut() if is_power_cut else world.killed())
    store = await world.started()
    assert bodies_of(store) == expected
    put_ok(store, b"next")
    await world.killed()
    assert bodies_of(await world.started()) == [*expected, b"next"]


async def test_a_last_file_that_lost_safe_bytes_is_not_lengthened(world: World) -> None:
    store = await world.started()
    end = put_ok(store, *bodies(5))[-1].next_offset
    await world.clock.run_for(20_000)
    await world.killed()
    world.disk.open(FIRST).truncate(end - 1)
    with pytest.raises(StoreError, match="bytes long"):
        await world.started()
    assert world.disk.size(FIRST) == end - 1


async def test_a_crash_after_a_torn_write_that_was_half_erased_loses_no_message(world: World) -> None:
    store = await world.started()
    put_ok(store, *bodies(5))
    world.files.plan.add(Fault("pwrite", "commitlog", times=1, keep_bytes=20))
    world.files.plan.add(Fault("truncate", "commitlog", after=1))
    assert store.put(message(b"torn")).status is not PutStatus.OK
    assert world.disk.size(ROOT / "commitlog" / f"{0:020d}") < 4096
    assert "erase" in store.not_writable_reason
    await store.stop()
    world.files.plan.clear()
    world.opened.clear()
    store = await world.started()
    assert bodies_of(store) == bodies(5)
    put_ok(store, b"next")


async def test_keys_are_found_after_a_kill(world: World) -> None:
    store = await world.started()
    for number in range(20):
        store.put(message(b"%d" % number, properties=b"KEYS\x01k%d\x02" % (number % 2)))
    await world.killed()
    store = await world.started()
    found = store.query("T", "k1", 32, 0, world.clock.now_ms())
    assert len(found.slices) == 10


# -- what is known to be safe is never cut off -------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
async def test_damage_in_the_middle_of_safe_messages_costs_that_message_only(
    world: World, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = await world.started()
    results = put_ok(store, *bodies(40))
    if clean:
        await store.stop()
    else:
        await world.clock.run_for(61_000)
        await world.killed()
    target = next(result for result in results[35:] if result.physical_offset % 4096 > 500)
    damage(world, target.physical_offset, b"\xff" * 60)
    store = await world.started()
    assert store.max_physical_offset == results[-1].next_offset
    assert "damaged" in caplog.text
    assert store.max_offset("T", 0) == 40
    assert put_ok(store, b"next")[0].queue_offset == 40


async def test_a_log_shorter_than_it_was_safe_is_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await stopped(world, 5)
    damage(world, 0, bytes(4096))
    store = await world.started()
    assert store.max_physical_offset == 0
    assert "messages are lost" in caplog.text
    assert put_ok(store, b"x")[0].queue_offset == 0


# -- after a power cut -------------------------------------------------------------------------------------------------


async def test_what_a_sync_flush_promised_survives_a_power_cut(world: World) -> None:
    told: list[object] = []
    store = await world.started(flush_disk_type="SYNC_FLUSH")
    for result in put_ok(store, *bodies(40)):
        store.when_durable(result, wait=True, done=told.append)
    await world.clock.settle()
    assert len(told) == 40
    await world.power_cut()
    store = await world.started()
    assert bodies_of(store) == bodies(40)


async def test_async_flush_loses_at_most_what_came_after_the_last_flush(world: World) -> None:
    store = await world.started(flush_least_pages=1, flush_interval_ms=500)
    put_ok(store, *bodies(40))
    await world.clock.run_for(500)
    put_ok(store, b"lost", b"lost too")
    flushed = store.flushed_offset
    await world.power_cut()
    store = await world.started()
    assert store.max_physical_offset >= flushed
    survived = bodies_of(store)
    assert survived == bodies(40)[: len(survived)]
    assert put_ok(store, b"next")[0].queue_offset == len(survived)


@pytest.mark.parametrize("seed", range(5))
async def test_a_disk_that_lies_about_syncs_invents_nothing(world: World, seed: int) -> None:
    store = await world.started(flush_disk_type="SYNC_FLUSH", commit_log_file_bytes=65536)
    put_ok(store, *bodies(1))
    world.files.plan.add(Fault("sync", error=None))
    put_ok(store, *bodies(40)[1:])
    await world.clock.run_for(5000)
    await world.killed()
    world.disk = world.disk.power_cut(random.Random(seed))
    world.files = FaultyFiles(world.disk)
    store = await world.started(commit_log_file_bytes=65536)
    survivors = []
    offset = 0
    while offset < store.max_offset("T", 0):
        answer = store.get("T", 0, offset, 1, 1 << 20)
        for record in answer.slices:
            with contextlib.suppress(RecordError):  # torn inside: its checksum shows it
                survivors.append(decode_record(record))
        offset = answer.next_offset
    for survivor in survivors:  # what is left keeps its place; the holes between are passed over
        assert survivor.body == bodies(40)[survivor.queue_offset]
    assert put_ok(store, b"next")[0].queue_offset > max((survivor.queue_offset for survivor in survivors), default=-1)


async def test_after_a_failed_sync_and_a_restart_the_log_is_written_again(world: World) -> None:
    """The kernel may call pages clean that never reached the disk: only writing them again makes a sync count."""
    store = await world.started()
    put_ok(store, *bodies(5))
    world.files.plan.add(Fault("sync", "commitlog", times=1))
    await world.clock.run_for(10_500)
    assert not store.writable
    await world.killed()
    world.files.plan.calls.clear()
    await world.started()
    calls = [call for call, path in world.files.plan.calls if path == FIRST]
    assert "pwrite" in calls
    assert "sync" in calls[calls.index("pwrite") :]
    await world.power_cut()
    assert bodies_of(await world.started()) == bodies(5)


async def test_a_clean_start_walks_only_the_last_file(world: World) -> None:
    await stopped(world, 100)
    world.files.plan.calls.clear()
    store = await world.started()
    assert len(store.log.list.files) > 5
    assert bodies_of(store) == bodies(100)
    assert not [call for call, path in world.files.plan.calls if call == "pwrite" and path.parent == LOG]


async def test_a_queue_that_lost_more_than_the_checkpoint_knows_is_rebuilt_from_an_earlier_file(world: World) -> None:
    store = await world.started()
    for number in range(60):  # one message of the quiet queue in each file
        put_ok(store, *bodies(1))
        if number % 12 == 0:
            put_ok(store, b"quiet %d" % number, queue_id=1)
    await world.clock.run_for(61_000)
    put_ok(store, b"quiet end", queue_id=1)
    await world.killed()
    # The checkpoint (61 s old) says all queues are safe, but a page of the quiet queue is gone.
    queue = world.disk.open(ROOT / "consumequeue" / "T" / "1" / f"{0:020d}")
    queue.pwrite(bytes(80), 40)
    store = await world.started()
    quiet = [b"quiet %d" % number for number in range(0, 60, 12)]
    assert bodies_of(store, queue_id=1) == [*quiet, b"quiet end"]


async def test_a_damaged_record_is_passed_over_by_readers(world: World) -> None:
    store = await world.started()
    results = put_ok(store, *bodies(5))
    damage(world, results[2].physical_offset, b"\xff" * 40)
    answer = store.get("T", 0, 0, 32, 1 << 20)
    assert [message.queue_offset for message in decode_records(b"".join(answer.slices))] == [0, 1, 3, 4]
    assert answer.next_offset == 5
    assert store.read_record(results[2].physical_offset) is None


async def test_a_damaged_last_record_of_a_file_costs_nothing_of_the_next_file(world: World) -> None:
    """Between it and the next record lies only the blank that closes the file; the log was safe up to there."""
    store = await world.started()
    (first,) = put_ok(store, b"x" * 180)
    count = (4096 - 8) // first.size
    last = put_ok(store, *[b"x" * 180] * (count - 1))[-1]
    await world.clock.run_for(20_000)
    assert store.flushed_offset == last.next_offset < 4096
    put_ok(store, b"next file")
    assert store.max_physical_offset > 4096
    await world.killed()
    damage(world, last.physical_offset + last.size // 2, b"\xff")
    assert bodies_of(await world.started()) == [*[b"x" * 180] * (count - 1), b"next file"]
