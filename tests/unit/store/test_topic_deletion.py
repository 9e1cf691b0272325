"""A topic deleted and made again, with and without a crash: new messages stay, old ones do not come back."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.store.audit import audit_store
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

OLD = [b"old%d" % number for number in range(5)]
NEW = [b"new%d" % number for number in range(3)]
KEY = b"KEYS\x01k\x02"


def audit(world: World) -> list[Any]:
    return audit_store(ROOT, files=world.disk, index_slots=11, index_entries=100)


async def turns(store: MessageStore) -> None:
    """Until everything that may be read is dispatched."""
    for _ in range(100):
        await asyncio.sleep(0)
    assert store.dispatched_offset == store.max_physical_offset


# -- without a crash ---------------------------------------------------------------------------------------------------


async def test_records_that_wait_for_their_sync_do_not_come_into_the_new_topic(world: World) -> None:
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    assert [result.queue_offset for result in put_ok(store, *NEW)] == [0, 1, 2]
    await world.clock.settle()
    world.sync.run_all()
    assert bodies_of(store) == NEW
    assert store.dispatched_offset == store.max_physical_offset


async def test_records_that_wait_in_the_write_pool_do_not_come_into_the_new_topic(world: World) -> None:
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2)
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    await world.clock.run_for(1000)
    assert bodies_of(store) == NEW


async def test_a_batch_that_is_dispatched_over_several_turns_stops_at_the_deletion(world: World) -> None:
    store = await world.started(commit_log_file_bytes=1 << 22)
    store.put_batch(PutMessage("T", 0, encode_batch([Message("T", b"x" * 1000) for _ in range(1000)])))
    assert 0 < store.max_offset("T", 0) < 1000
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    await turns(store)
    assert bodies_of(store) == NEW
    assert store.min_offset("T", 0) == 0


async def test_keys_of_a_deleted_topic_are_not_found(world: World) -> None:
    store = await world.started()
    store.put(PutMessage("T", 0, b"old", KEY))
    store.delete_topics(["T"])
    store.put(PutMessage("T", 0, b"new", KEY))
    (found,) = store.query("T", "k", 10, 0, 2**62).slices
    assert b"new" in bytes(found)


async def test_a_deletion_is_answered_when_its_note_is_safe(world: World) -> None:
    store = await world.started()
    put_ok(store, *OLD)
    answers: list[Exception | None] = []
    world.files.plan.add(Fault("write_bytes", "deletedTopics", times=1, error=errno.EIO))
    store.delete_topics(["T"], answers.append)
    (error,) = answers
    assert isinstance(error, OSError)
    assert not world.disk.exists(ROOT / "deletedTopics.json")
    await world.clock.run_for(1000)  # it is tried again
    assert store.deletions.is_dead("T", 0)
    assert not store.deletions.changed
    store.delete_topics(["T"], answers.append)
    assert answers[1:] == [None]


async def test_a_folder_that_cannot_be_renamed_is_said_and_goes_later(world: World) -> None:
    store = await world.started()
    put_ok(store, *OLD)
    await world.clock.run_for(2000)
    store.queues.flush()
    world.files.plan.add(Fault("rename", "consumequeue", times=1, error=errno.EIO))
    answers: list[Exception | None] = []
    store.delete_topics(["T"], answers.append)
    assert "cannot be deleted" in str(answers[0])
    put_ok(store, *NEW)  # the old folder goes before a file of the topic made anew comes
    assert bodies_of(store) == NEW
    await world.clock.run_for(2000)
    store.log.list.flush()
    store = await restarted(world, store, "power cut", "ASYNC_FLUSH")
    assert bodies_of(store) == NEW


# -- with a crash ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", ["kill", "power cut", "clean stop"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("count_old", [2, 5, 60])
async def test_new_messages_survive_and_old_ones_stay_away(
    world: World, crash: str, flush: str, count_old: int
) -> None:
    store = await world.started(flush_disk_type=flush)
    put_ok(store, *[b"old%d" % number for number in range(count_old)])
    put_ok(store, b"kept", topic="other")
    await turns(store)
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    await turns(store)
    store.log.list.flush()
    store = await restarted(world, store, crash, flush)
    assert bodies_of(store) == NEW
    assert bodies_of(store, "other") == [b"kept"]
    assert [result.queue_offset for result in put_ok(store, b"next")] == [3]
    await turns(store)
    await store.stop()
    assert audit(world) == []


@pytest.mark.parametrize("crash", ["kill", "power cut"])
async def test_a_topic_used_again_only_after_the_crash_begins_empty(world: World, crash: str) -> None:
    store = await world.started()
    put_ok(store, *OLD)
    store.log.list.flush()
    store.delete_topics(["T"])
    store = await restarted(world, store, crash, "ASYNC_FLUSH")
    assert bodies_of(store) == []
    assert [result.queue_offset for result in put_ok(store, *NEW)] == [0, 1, 2]
    assert bodies_of(store) == NEW


async def test_a_crash_between_the_note_and_the_renamed_folder_ends_in_a_deleted_topic(world: World) -> None:
    store = await world.started()
    put_ok(store, *OLD)
    store.queues.flush()
    store.deletions.note(["T"], store.max_physical_offset)  # the folder's new name was lost
    store.deletions.write(store.deletions.encode())
    store = await restarted(world, store, "kill", "ASYNC_FLUSH")
    assert store.max_offset("T", 0) == 0
    assert not world.disk.list_dir(ROOT / "removed")


async def test_a_log_that_ends_before_the_note_takes_new_messages_there(world: World) -> None:
    store = await world.started()
    put_ok(store, b"kept", topic="other")
    store.log.list.flush()
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    for crash in ("power cut", "kill", "clean stop"):
        store = await restarted(world, store, crash, "ASYNC_FLUSH")
        if crash == "power cut":
            put_ok(store, *NEW)  # where the deleted ones lay
        assert bodies_of(store) == NEW, crash


async def test_without_notes_the_newer_topic_wins_and_what_goes_is_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Deleted and made again under Apache's broker, then killed before the new queue had its files."""
    store = await world.started()
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    world.disk.remove(ROOT / "deletedTopics.json")
    world.disk.remove(ROOT / "queueEnds")
    store = await restarted(world, store, "kill", "ASYNC_FLUSH")
    assert bodies_of(store) == NEW
    assert "5 entries before it, of a topic that was deleted and made again, are dropped" in caplog.text
    assert [result.queue_offset for result in put_ok(store, b"next")] == [3]


async def test_notes_stay_while_a_crash_may_bring_the_log_back_that_they_speak_of(world: World) -> None:
    hours = ";".join(f"{hour:02d}" for hour in range(24))
    store = await world.started(delete_when=hours, queue_flush_thorough_interval_ms=1000)
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    put_ok(store, *[b"x" * 900 for _ in range(20)], topic="other")
    store.log.list.flush()
    await world.clock.run_for(12_000)
    world.clock.advance(100 * 3_600_000)
    world.files.plan.add(Fault("remove", "commitlog"))
    store.retention.look()
    assert store.min_physical_offset > 0
    store = await restarted(world, store, "kill", "ASYNC_FLUSH")
    assert (store.min_physical_offset, bodies_of(store)) == (0, [])


async def made_again_unnoted(world: World) -> MessageStore:
    """A topic is deleted and made again, and the process dies before the deletion could be noted."""
    store = await world.started()
    put_ok(store, *OLD)
    world.files.plan.add(Fault("write_bytes", "deletedTopics", times=99, error=errno.EIO))
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    return await restarted(world, store, "kill", "ASYNC_FLUSH")


async def test_where_a_queue_begins_anew_is_noted(world: World) -> None:
    """Else its first record could never be damaged: the next start would take the older ones for its start."""
    store = await made_again_unnoted(world)
    assert bodies_of(store) == NEW
    first = store.queue_entries("T", 0, 0, 1)[0][0]
    await store.stop()
    log = world.disk.open(ROOT / "commitlog" / f"{0:020d}")
    log.pwrite(b"\0\0\0\0", first + 4)  # its magic
    log.sync()
    queue = ROOT / "consumequeue" / "T" / "0"
    world.disk.remove(queue / f"{0:020d}")
    store = await world.started()
    assert bodies_of(store) == NEW[1:]
    assert [result.queue_offset for result in put_ok(store, b"next")] == [3]


async def test_a_lost_entry_is_found_again_in_the_newer_topic(world: World) -> None:
    store = await made_again_unnoted(world)
    await store.stop()
    world.disk.remove(ROOT / "deletedTopics.json")
    queue = world.disk.open(ROOT / "consumequeue" / "T" / "0" / f"{0:020d}")
    queue.pwrite(b"\0\0\0\x7f", 8)  # the size of entry 0
    queue.sync()
    assert bodies_of(await world.started()) == NEW


async def test_a_queue_that_begins_anew_goes_on_behind_its_own_messages(world: World) -> None:
    """Not behind those of the topic before it: the gap would be too wide for the log when it is built again."""
    store = await world.started(queue_flush_thorough_interval_ms=1000)
    put_ok(store, *OLD)
    await world.clock.run_for(3000)  # how far the queue reached is written down
    world.files.plan.add(Fault("write_bytes", "deletedTopics", times=99, error=errno.EIO))
    store.delete_topics(["T"])
    put_ok(store, *NEW)
    store = await restarted(world, store, "kill", "ASYNC_FLUSH")
    assert [result.queue_offset for result in put_ok(store, b"next")] == [3]


async def test_a_new_queue_that_is_on_disk_in_part_takes_no_old_records(world: World) -> None:
    """The index lacks keys, so the walk comes by the old records: the ones behind the new queue's end are old, too."""
    store = await world.started()
    for number in range(15):
        store.put(message(b"old%d" % number, properties=KEY))
    world.files.plan.add(Fault("write_bytes", "deletedTopics", times=99, error=errno.EIO))
    store.delete_topics(["T"])
    new = [b"new%d" % number for number in range(12)]
    put_ok(store, *new)  # the first file of the queue holds ten
    store = await restarted(world, store, "kill", "ASYNC_FLUSH")
    assert bodies_of(store) == new


async def test_notes_go_with_the_log_they_speak_of(world: World) -> None:
    hours = ";".join(f"{hour:02d}" for hour in range(24))
    store = await world.started(delete_when=hours, queue_flush_thorough_interval_ms=1000)
    put_ok(store, *OLD)
    store.delete_topics(["T"])
    put_ok(store, *[b"x" * 900 for _ in range(20)], topic="other")
    store.log.list.flush()
    await world.clock.run_for(12_000)  # a look: from then on these files grow old
    world.clock.advance(100 * 3_600_000)
    store.retention.look()
    assert store.min_physical_offset > 0
    assert dict(store.deletions.topics) == {}
    assert not store.deletions.changed


async def restarted(world: World, store: MessageStore, crash: str, flush: str) -> MessageStore:
    if crash == "clean stop":
        await store.stop()
    elif crash == "kill":
        await world.killed()
    else:
        await world.power_cut()
    return await world.started(flush_disk_type=flush)
