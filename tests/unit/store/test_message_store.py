from __future__ import annotations

import ctypes
import errno
import itertools

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.errors import StoreError
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.store import commit_log
from rocketlake.store.results import GetStatus, PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

# -- put and get -------------------------------------------------------------------------------------------------------


async def test_a_message_can_be_read_in_the_turn_it_was_put(world: World) -> None:
    store = await world.started()
    (result,) = put_ok(store, b"hello")
    answer = store.get("T", 0, 0, 32, 1000)
    assert answer.status is GetStatus.FOUND
    assert decode_record(answer.slices[0]).body == b"hello"
    assert (answer.next_offset, answer.min_offset, answer.max_offset) == (1, 0, 1)
    assert (result.physical_offset, result.queue_offset, result.next_offset) == (0, 0, result.size)


async def test_each_queue_counts_for_itself(world: World) -> None:
    store = await world.started()
    offsets = [store.put(message(topic=topic, queue_id=queue)).queue_offset for topic in "AB" for queue in (0, 1, 0)]
    assert offsets == [0, 0, 1, 0, 0, 1]


async def test_arrivals_are_told_with_the_new_max_offset_and_the_tag_code(world: World) -> None:
    store = await world.started()
    told: list[tuple[str, int, int, int, int]] = []
    store.on_arrival = lambda *arrival: told.append(arrival)
    store.put(message(properties=b"TAGS\x01TagA\x02", queue_id=3))
    assert told == [("T", 3, 1, 2598919, world.clock.now_ms())]


async def test_a_batch_is_one_message_each(world: World) -> None:
    store = await world.started()
    put_ok(store, b"before")
    body = encode_batch([Message("T", b"a", keys="k1"), Message("T", b"b")])
    result = store.put_batch(message(body, properties=b"CLUSTER\x01c\x02"))
    assert (result.status, result.queue_offset, result.count) == (PutStatus.OK, 1, 2)
    assert result.next_offset == store.max_physical_offset
    assert bodies_of(store) == [b"before", b"a", b"b"]
    read = [decode_record(store.read_record(offset) or b"").properties for offset in result.offsets]
    assert [properties["CLUSTER"] for properties in read] == ["c", "c"]
    assert read[0]["KEYS"] == "k1"
    assert store.put(message()).queue_offset == 3


async def test_the_log_can_be_read_from_any_record_on_file_by_file(world: World) -> None:
    store = await world.started()
    results = put_ok(store, *(b"%d" % number + bytes(1000) for number in range(6)))
    start = results[1].physical_offset
    views = list(store.log_views(start))
    assert [offset for offset, _ in views] == [start, 4096]
    assert decode_record(views[0][1][: results[1].size]).body[:1] == b"1"
    assert views[-1][0] + len(views[-1][1]) == store.max_physical_offset
    assert list(store.log_views(store.max_physical_offset)) == []


@pytest.mark.parametrize("body", [b"", b"\0" * 10, b"\xff" * 40, encode_batch([Message("T", b"a")])[:-1]])
async def test_a_broken_batch_is_refused_whole(world: World, body: bytes) -> None:
    store = await world.started()
    result = store.put_batch(message(body))
    assert result.status is PutStatus.MESSAGE_ILLEGAL
    assert "batch" in result.reason
    assert store.put(message()).queue_offset == 0


async def test_half_messages_and_rollbacks_take_no_queue_offset(world: World) -> None:
    store = await world.started()
    put_ok(store, b"one")
    for sys_flag in (4, 12):
        assert store.put(message(b"hidden", sys_flag=sys_flag)).queue_offset == 0
    assert store.put(message(b"two", sys_flag=8)).queue_offset == 1
    assert bodies_of(store) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"topic": "x" * 128}, PutStatus.MESSAGE_ILLEGAL, "topic has 128 bytes, at most 127"),
        ({"topic": "ü" * 64}, PutStatus.MESSAGE_ILLEGAL, "topic has 128 bytes, at most 127"),
        ({"topic": "%RETRY%" + "x" * 249}, PutStatus.MESSAGE_ILLEGAL, "topic has 256 bytes, at most 255"),
        ({"body": b"x" * 2001}, PutStatus.MESSAGE_ILLEGAL, "body has 2001 bytes, maxMessageSize is 2000"),
        ({"properties": b"x" * 32768}, PutStatus.PROPERTIES_TOO_LONG, "properties have 32768 bytes"),
        ({"flag": 2**31}, PutStatus.MESSAGE_ILLEGAL, "does not fit its field"),
        ({"topic": "../up"}, PutStatus.MESSAGE_ILLEGAL, "no queue can have the topic"),
        ({"queue_id": -1}, PutStatus.MESSAGE_ILLEGAL, "no queue is named 'T' -1"),
        ({"topic": ""}, PutStatus.MESSAGE_ILLEGAL, "no queue is named"),
        ({"topic": "\ud800"}, PutStatus.MESSAGE_ILLEGAL, "surrogates not allowed"),
    ],
)
async def test_an_illegal_message_is_refused_with_the_limit_and_takes_no_offset(
    world: World, fields: dict[str, object], status: PutStatus, reason: str
) -> None:
    store = await world.started(body_bytes_max=2000)
    result = store.put(message(**fields))  # type: ignore[arg-type]
    assert result.status is status
    assert reason in result.reason
    assert store.max_physical_offset == 0
    assert store.put(message()).queue_offset == 0


async def test_a_long_retry_topic_is_a_v2_record(world: World) -> None:
    store = await world.started()
    topic = "%RETRY%" + "g" * 200
    put_ok(store, b"again", topic=topic)
    assert bodies_of(store, topic) == [b"again"]


async def test_reading_outside_a_queue_says_where_to_go_on(world: World) -> None:
    store = await world.started()
    put_ok(store, b"a", b"b")
    answers = {offset: store.get("T", 0, offset, 1, 1000) for offset in (-1, 2, 3)}
    assert {offset: (answer.status, answer.next_offset) for offset, answer in answers.items()} == {
        -1: (GetStatus.OFFSET_TOO_SMALL, 0),
        2: (GetStatus.OFFSET_OVERFLOW_ONE, 2),
        3: (GetStatus.OFFSET_OVERFLOW_BADLY, 2),
    }
    assert store.get("unknown", 0, 5, 1, 1000).status is GetStatus.NO_MESSAGE_IN_QUEUE


async def test_limits_of_one_read(world: World) -> None:
    store = await world.started(transfer_count_max_memory=5, transfer_bytes_max_memory=1200)
    put_ok(store, *[b"x" * 100] * 10)
    size = store.get("T", 0, 0, 1, 1 << 20).bytes
    assert store.get("T", 0, 0, 3, 1 << 20).count == 3
    assert store.get("T", 0, 0, 32, 1 << 20).count == 5
    assert store.get("T", 0, 0, 32, 2 * size + 1).count == 2
    assert store.get("T", 0, 0, 32, 1).count == 1  # the first message always
    put_ok(store, *[b"y" * 500] * 3, queue_id=1)
    assert store.get("T", 1, 0, 32, 1 << 20).count == 2


async def test_filters_skip_and_the_next_offset_passes_what_was_skipped(world: World) -> None:
    store = await world.started()
    for number in range(100):
        store.put(message(bytes([number]), properties=b"TAGS\x01" + (b"odd" if number % 2 else b"even") + b"\x02"))
    odd = store.get("T", 0, 0, 4, 1 << 20, match=lambda code: code == 109871)
    assert [message.body[0] for message in decode_records(b"".join(odd.slices))] == [1, 3, 5, 7]
    assert odd.next_offset == 8
    none = store.get("T", 0, 0, 4, 1 << 20, match_record=lambda _record: False)
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)  # one queue file of 10 entries


async def test_messages_are_found_by_key_and_unique_key_oldest_first(world: World) -> None:
    store = await world.started()
    for number in range(3):
        store.put(message(b"%d" % number, properties=b"KEYS\x01red blue\x02UNIQ_KEY\x01U%d\x02" % number))
        await world.clock.run_for(1000)
    end = world.clock.now_ms()
    found = store.query("T", "blue", 32, 0, end)
    assert [decode_record(record).body for record in found.slices] == [b"0", b"1", b"2"]
    assert found.index_last_offset > 0
    assert [decode_record(record).body for record in store.query("T", "U1", 1, 0, end, unique=True).slices] == [b"1"]
    assert store.query("T", "green", 32, 0, end).slices == []
    assert store.query("other", "blue", 32, 0, end).slices == []


async def test_offsets_are_found_by_time(world: World) -> None:
    store = await world.started()
    start = world.clock.now_ms()
    for _ in range(5):
        put_ok(store, b"x")
        await world.clock.run_for(100)
    assert store.offset_by_time("T", 0, start + 150) == 2
    assert store.offset_by_time("T", 0, start + 150, upper=True) == 1
    assert store.offset_by_time("T", 0, 0) == 0
    assert store.offset_by_time("T", 0, start + 10_000) == 5
    assert store.earliest_store_ms("T", 0) == start
    assert store.store_ms_at("T", 0, 4) == start + 400
    assert store.earliest_store_ms("unknown", 0) == -1


async def test_deleted_topics_start_again_at_zero(world: World) -> None:
    store = await world.started()
    put_ok(store, b"a", b"b")
    put_ok(store, b"kept", topic="other")
    store.delete_topics(["T"])
    assert store.max_offset("T", 0) == 0
    assert store.put(message()).queue_offset == 0
    assert bodies_of(store, "other") == [b"kept"]


# -- when it is durable ------------------------------------------------------------------------------------------------


async def test_async_flush_and_wait_false_are_answered_at_once(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(hold_sync=True)
    store.when_durable(store.put(message()), wait=True, done=told.append)
    assert told == [PutStatus.OK]
    await world.killed()
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    store.when_durable(store.put(message()), wait=False, done=told.append)
    assert told == [PutStatus.OK, PutStatus.OK]
    await world.clock.settle()
    assert world.sync.pending  # it is synced soon, though nobody waits


async def test_sync_flush_is_answered_and_readable_after_the_sync(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    store.when_durable(store.put(message(b"safe")), wait=True, done=told.append)
    await world.clock.settle()
    assert (told, bodies_of(store)) == ([], [])
    world.sync.run_all()
    assert (told, bodies_of(store)) == ([PutStatus.OK], [b"safe"])


async def test_with_sync_flush_a_put_is_synced_though_nobody_asks_when(world: World) -> None:
    store = await world.started(flush_disk_type="SYNC_FLUSH")
    put_ok(store, b"of the broker itself")
    await world.clock.settle()
    assert store.flushed_offset == store.max_physical_offset
    assert bodies_of(store) == [b"of the broker itself"]


async def test_a_slow_sync_is_a_timeout_after_five_seconds(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    store.when_durable(store.put(message()), wait=True, done=told.append)
    await world.clock.run_for(4999)
    assert told == []
    await world.clock.run_for(1)
    assert told == [PutStatus.FLUSH_DISK_TIMEOUT]
    world.sync.run_all()
    assert store.writable


async def test_a_failed_sync_ends_writing_and_says_why_and_reading_goes_on(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    store.when_durable(store.put(message(b"safe")), wait=True, done=told.append)
    await world.clock.settle()
    world.sync.run_all()
    world.files.plan.add(Fault("sync", "commitlog", times=1))
    store.when_durable(store.put(message(b"not safe")), wait=True, done=told.append)
    await world.clock.settle()
    world.sync.run_all()
    assert told == [PutStatus.OK, PutStatus.SERVICE_NOT_AVAILABLE]
    assert bodies_of(store) == [b"safe"]
    refused = store.put(message())
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "sync of /store/commitlog/00000000000000000000 failed" in refused.reason
    await world.clock.run_for(20_000)
    assert not world.sync.pending  # and it is not tried again


async def test_a_refused_put_is_answered_at_once(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(flush_disk_type="SYNC_FLUSH", body_bytes_max=10)
    store.when_durable(store.put(message(b"x" * 11)), wait=True, done=told.append)
    assert told == [PutStatus.MESSAGE_ILLEGAL]


async def test_a_full_disk_refuses_one_put_and_takes_the_next_when_there_is_room(world: World) -> None:
    store = await world.started()
    put_ok(store, b"one")
    world.files.plan.add(Fault("pwrite", "commitlog", error=errno.ENOSPC, keep_bytes=30))
    assert store.put(message(b"two")).status is PutStatus.DISK_FULL
    world.files.plan.clear()
    put_ok(store, b"three")
    assert bodies_of(store) == [b"one", b"three"]


async def test_a_queue_that_cannot_be_written_refuses_puts_and_catches_up(world: World) -> None:
    store = await world.started()
    early = [b"%d" % number for number in range(10)]  # as many as a file holds: they wait in memory
    for body in early:
        put_ok(store, body)
    world.files.plan.add(Fault("pwrite", "consumequeue", error=errno.ENOSPC))
    assert store.put(message(b"stored")).status is PutStatus.OK
    assert bodies_of(store) == early
    assert store.put(message(b"refused")).status is PutStatus.SERVICE_NOT_AVAILABLE
    world.files.plan.clear()
    await world.clock.run_for(1000)
    assert store.max_offset("T", 0) == 11
    put_ok(store, b"again")


async def test_the_write_pool_is_readable_after_the_commit_interval(world: World) -> None:
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2)
    put_ok(store, b"buffered")
    assert bodies_of(store) == []
    await world.clock.run_for(200)
    assert bodies_of(store) == [b"buffered"]


async def test_a_write_pool_that_cannot_be_committed_refuses_puts_until_it_can(world: World) -> None:
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2)
    put_ok(store, b"buffered")
    world.files.plan.add(Fault("pwrite", "commitlog", error=errno.ENOSPC))
    await world.clock.run_for(400)
    assert "write pool" in store.put(message()).reason
    world.files.plan.clear()
    await world.clock.run_for(400)
    put_ok(store, b"more")
    await world.clock.run_for(400)
    assert bodies_of(store) == [b"buffered", b"more"]


async def test_sync_flush_does_without_the_write_pool(world: World, caplog: pytest.LogCaptureFixture) -> None:
    told: list[PutStatus] = []
    store = await world.started(flush_disk_type="SYNC_FLUSH", write_pool_enabled=True, write_pool_buffers=2)
    assert store.log.pool is None
    assert "transientStorePoolEnable has no effect with flushDiskType=SYNC_FLUSH" in caplog.text
    store.when_durable(store.put(message(b"safe")), wait=True, done=told.append)
    await world.clock.settle()
    assert told == [PutStatus.OK]
    await world.power_cut()
    store = await world.started()
    assert bodies_of(store) == [b"safe"]


async def test_the_start_says_what_the_write_pool_costs(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.started(write_pool_enabled=True, commit_interval_ms=300, commit_thorough_interval_ms=500)
    assert "if this process is killed, those of the last 800 ms are lost" in caplog.text


async def test_the_start_locks_the_write_buffers_in_memory(world: World) -> None:
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2)
    pool = store.log.pool
    assert pool is not None
    buffers = [pool.borrow() for _ in range(pool.free)]
    is_allowed = not pool.lock()
    assert buffers and {is_locked(buffer) for buffer in buffers} == {is_allowed}


def is_locked(buffer: memoryview) -> bool:
    """True if the kernel may not swap out the mapping that begins with this buffer."""
    start = f"{ctypes.addressof(ctypes.c_char.from_buffer(buffer)):x}-"
    with open("/proc/self/smaps") as mappings:
        of_buffer = itertools.dropwhile(lambda line: not line.startswith(start), mappings)
        flags = next(line for line in of_buffer if line.startswith("VmFlags:"))
    return "lo" in flags.split()


async def test_with_fast_fail_a_pool_without_a_free_buffer_is_busy_at_once(world: World) -> None:
    settings = {"write_pool_enabled": True, "write_pool_buffers": 2, "commit_wakes_on_put": False}
    store = await world.started(**settings, write_pool_fails_fast=True)
    results = [store.put(message(bytes(3000))) for _ in range(3)]  # one to a file
    assert [result.status for result in results] == [PutStatus.OK, PutStatus.OK, PutStatus.POOL_BUSY]
    await world.clock.settle()  # no time passes
    put_ok(store, b"taken")
    await world.clock.run_for(1000)
    assert [len(body) for body in bodies_of(store)] == [3000, 3000, 5]


async def test_an_exhausted_write_pool_is_busy_and_is_committed_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "_COMMITTED_AT_ONCE", 5000)
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2, commit_wakes_on_put=False)
    results = [store.put(message(bytes(3000))) for _ in range(3)]  # one to a file
    assert [result.status for result in results] == [PutStatus.OK, PutStatus.OK, PutStatus.POOL_BUSY]
    assert "all 2 write buffers are full" in results[2].reason
    await world.clock.settle()  # no time passes
    put_ok(store, b"taken")
    await world.clock.run_for(1000)
    assert [len(body) for body in bodies_of(store)] == [3000, 3000, 5]


# -- start and stop ----------------------------------------------------------------------------------------------------


async def test_a_clean_stop_removes_the_abort_file_and_keeps_everything(world: World) -> None:
    store = await world.started()
    assert world.disk.exists(ROOT / "abort")
    put_ok(store, *[b"%d" % number for number in range(30)])
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")
    disk = world.disk
    await world.power_cut()  # everything was synced
    world.disk = disk
    store = await world.started()
    assert bodies_of(store) == [b"%d" % number for number in range(30)]


async def test_before_the_start_and_after_the_stop_puts_are_refused(world: World) -> None:
    store = world.store()
    assert store.put(message()).reason == "the store is not started"
    await store.start()
    await store.stop()
    assert store.put(message()).reason == "the store is stopped"


async def test_a_second_store_on_the_folder_is_refused_and_leaves_the_first_alone(world: World) -> None:
    store = await world.started()
    with pytest.raises(StoreError, match=r"in use .*/store/lock"):
        await world.started()
    put_ok(store, b"still there")
    await store.stop()
    await world.started()


async def test_another_file_size_is_refused_and_the_folder_stays_as_it_was(world: World) -> None:
    store = await world.started()
    put_ok(store, b"x")
    await store.stop()
    with pytest.raises(StoreError, match="8192"):
        await world.started(commit_log_file_bytes=8192)
    assert not world.disk.exists(ROOT / "abort")
    assert bodies_of(await world.started()) == [b"x"]


async def test_the_stop_answers_those_who_still_wait(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(flush_disk_type="SYNC_FLUSH")
    store.when_durable(store.put(message()), wait=True, done=told.append)
    await store.stop()
    assert told == [PutStatus.OK]


async def test_a_stop_after_a_failed_sync_keeps_the_abort_file(world: World, caplog: pytest.LogCaptureFixture) -> None:
    store = await world.started()
    put_ok(store, b"x")
    world.files.plan.add(Fault("sync", "commitlog"))
    await store.stop()
    assert world.disk.exists(ROOT / "abort")
    assert "could not be stopped cleanly" in caplog.text


async def test_a_disk_that_cannot_be_read_is_a_store_error_with_its_path(world: World) -> None:
    world.files.plan.add(Fault("make_dirs", error=errno.EACCES))
    with pytest.raises(StoreError, match=r"Permission denied.*\(/store\)"):
        await world.started()


# -- files made ahead --------------------------------------------------------------------------------------------------


async def test_a_store_that_starts_again_has_its_next_log_file_made_ahead(world: World) -> None:
    first = await world.started()
    put_ok(first, b"x")
    await first.stop()
    assert len(world.disk.list_dir(ROOT / "commitlog")) == 1
    again = await world.started()
    assert len(world.disk.list_dir(ROOT / "commitlog")) == 2
    assert again.max_physical_offset == first.max_physical_offset


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, r"No space.*/store/commitlog.*free some space"),
        (errno.EACCES, r"Permission denied.*/store/commitlog.*the user who owns these files"),
    ],
)
async def test_a_start_that_cannot_write_names_the_file_and_the_cure(code: int, said: str) -> None:
    world = World()
    store = await world.started()
    store.put(message(b"kept"))
    await store.stop()
    world.files.plan.faults.append(Fault("make_dirs", "commitlog", error=code))
    with pytest.raises(StoreError, match="cannot be opened.*" + said):
        await world.started()
    world.files.plan.faults.clear()
    store = await world.started()
    assert store.max_offset("T", 0) == 1
    await store.stop()
