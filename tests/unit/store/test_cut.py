"""A replica appends its master's bytes, loses its end, follows another master, is restarted and read all the while."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.store.audit import audit_store
from rocketlake.store.config import StoreConfig
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus, PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

Feed = Callable[[MessageStore, MessageStore, int], None]


def feed(follower: MessageStore, master: MessageStore, start: int) -> None:
    """What the master's log holds from `start` on goes into the follower's."""
    for offset, view in master.log_views(start):
        follower.append_raw(bytes(view), offset)


def fill(store: MessageStore, name: str, count: int) -> list[int]:
    """Messages with keys in two queues, one larger than most; their physical offsets."""
    offsets: list[int] = []
    for number in range(count):
        body = f"{name}{number}".encode() + bytes(900 if number % 7 == 3 else 0)
        keys = f"KEYS\x01{name}{number}\x02UNIQ_KEY\x01U{name}{number}\x02".encode()
        result = store.put(message(body, queue_id=number % 2, properties=keys))
        assert result.status is PutStatus.OK
        offsets.append(result.physical_offset)
    return offsets


def contents(store: MessageStore) -> dict[int, list[bytes]]:
    return {queue_id: bodies_of(store, queue_id=queue_id) for queue_id in (0, 1)}


def log_bytes(store: MessageStore) -> list[bytes]:
    return [bytes(view).ljust(4096, b"\0") for _, view in store.log_views(0)]


def key_hits(store: MessageStore, key: str) -> list[bytes]:
    return [decode_record(record).body[: len(key)] for record in store.query("T", key, 9, 0, 1 << 50).slices]


def plain_contents(store: MessageStore, plain: Any) -> dict[int, list[bytes]]:
    """The same as `contents`, read by the kernel."""
    found: dict[int, list[bytes]] = {}
    for queue_id in (0, 1):
        queue = store.queues.find("T", queue_id)
        bodies = found[queue_id] = []
        offset = 0
        while queue is not None and offset < queue.max_offset:
            plain.begin()
            # Not over a border of files: then the ordinary way goes on.
            assert plain.fetch(queue, offset, 32, 1 << 20, None) or plain.fetch(queue, offset, 1, 1 << 20, None)
            bodies += [message.body for message in decode_records(b"".join(plain.framed(b"")))]
            offset = plain.next_offset
            plain.end()
    return found


def plain_reader(store: MessageStore) -> Any:
    if os.environ.get("ROCKETLAKE_PURE") == "1":
        pytest.skip("kernels have a compiled form only")
    from rocketlake.store.plain_fetch import PlainFetch

    return PlainFetch(store.fetch)


@pytest.fixture
async def worlds() -> Any:
    """Three disks: a replica's, and those of two masters."""
    made = [World() for _ in range(3)]
    yield made
    for world in made:
        await world.killed()


# -- the life of a replica ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 5, 21, 30])
async def test_a_replica_follows_another_master_from_where_both_agree(worlds: list[World], lost: int) -> None:
    """The old master has 30 records that the new one has up to a point; with 4 KiB a file some lie files before."""
    replica, old, new = [await world.started() for world in worlds]
    offsets = fill(old, "a", 30)
    feed(replica, old, 0)
    assert contents(replica) == contents(old)
    plain = plain_reader(replica)
    assert plain_contents(replica, plain) == contents(old)
    cut_at = offsets[30 - lost]
    old_hit = key_hits(replica, "a29")
    feed(new, old, 0)
    await new.cut(cut_at)
    fill(new, "b", 25)
    await replica.cut(cut_at)
    assert replica.max_physical_offset == replica.dispatched_offset == cut_at
    assert (old_hit, key_hits(replica, "a29")) == ([b"a29"], [])
    feed(replica, new, cut_at)
    for _ in range(2):
        assert contents(replica) == contents(new)
        assert plain_contents(replica, plain) == contents(new)
        assert (key_hits(replica, "b24"), key_hits(replica, "a29")) == ([b"b24"], [])
        assert log_bytes(replica) == log_bytes(new)
        await replica.stop()
        assert audit_store(ROOT, files=worlds[0].disk, index_slots=11, index_entries=100) == []
        replica = await worlds[0].started()
        plain = plain_reader(replica)
    put_ok(replica, b"as a master")
    assert bodies_of(replica)[-1] == b"as a master"


async def test_bytes_that_do_not_fit_are_refused_and_nothing_of_them_is_appended(worlds: list[World]) -> None:
    replica, master, _ = [await world.started() for world in worlds]
    first, second = fill(master, "a", 2)
    ((_, view),) = list(master.log_views(0))
    data = bytes(view)
    body_broken = bytearray(data)
    body_broken[data.index(b"a1")] ^= 1
    for offset, wrong in (
        (second, data[second:]),  # a gap before it
        (first, data[:-1]),  # half a record at its end
        (first, data[1:]),
        (first, bytes(body_broken)),
        (first, data + (99).to_bytes(4, "big") + b"\xcb\xd4\x31\x94"),  # a blank of another length
    ):
        with pytest.raises(StoreError):
            replica.append_raw(wrong, offset)
        assert replica.max_physical_offset == 0
    assert replica.append_raw(bytes(body_broken), first, check_crc=False) == len(data)
    assert replica.append_raw(b"", len(data)) == len(data)


async def test_a_blank_comes_as_its_head_or_with_all_bytes_of_its_file(worlds: list[World]) -> None:
    replica, master, other = [await world.started() for world in worlds]
    fill(master, "a", 30)
    views = list(master.log_views(0))
    whole = b"".join(bytes(view) + bytes(-len(view) % 4096) for _, view in views[:-1]) + bytes(views[-1][1])
    assert replica.append_raw(whole, 0) == master.max_physical_offset  # several files in one chunk
    feed(other, master, 0)
    assert contents(replica) == contents(other) == contents(master)


async def test_a_replica_may_begin_where_a_file_of_its_master_begins(worlds: list[World]) -> None:
    replica, master, _ = [await world.started() for world in worlds]
    fill(master, "a", 30)
    ((second_file, view), *_rest) = list(master.log_views(4096))
    inside = second_file + int.from_bytes(view[:4], "big")
    with pytest.raises(StoreError, match=f"the records are of {inside}, the log ends at 0"):
        feed(replica, master, inside)
    feed(replica, master, 4096)
    assert replica.min_physical_offset == 4096
    found = bodies_of(replica)
    assert 0 < len(found) < len(bodies_of(master)) == found.index(found[-1]) + 1 + replica.min_offset("T", 0)
    assert found == bodies_of(master)[-len(found) :]


# -- what else a cut touches -------------------------------------------------------------------------------------------


async def test_a_cut_is_refused_between_the_borders_of_a_record_and_below_what_is_confirmed(world: World) -> None:
    store = await world.started()
    offsets = fill(store, "a", 9)
    for end, why in ((offsets[3] + 1, "no sound record starts there"), (-1, "no sound"), (1 << 40, "no sound")):
        with pytest.raises(StoreError, match=why):
            await store.cut(end)
    store.durability.advance(Stage.CONFIRMED, offsets[4])
    with pytest.raises(StoreError, match=f"what lies before {offsets[4]} is confirmed"):
        await store.cut(offsets[3])
    end = store.max_physical_offset
    await store.cut(end)  # nothing lies behind it
    assert (len(contents(store)[0]), store.max_physical_offset) == (5, end)
    await store.cut(offsets[4])
    assert store.max_physical_offset == offsets[4]


async def test_no_ack_comes_for_a_message_that_was_cut_though_its_place_is_taken_again(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started()
    store.durability.demand(Demands({Stage.REPLICATED: 3000}, reads=(Stage.REPLICATED,)))
    kept, cut = put_ok(store, b"kept", b"cut")
    for result in (kept, cut):
        store.when_durable(result, wait=True, done=told.append)
    await store.cut(cut.physical_offset)
    assert told == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert "was cut" in cut.reason
    put_ok(store, b"new")
    store.durability.advance(Stage.REPLICATED, cut.next_offset)
    assert (told, bodies_of(store)) == ([PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.OK], [b"kept", b"new"])


async def test_a_reader_at_the_end_that_was_cut_is_sent_back(world: World) -> None:
    store = await world.started()
    offsets = fill(store, "a", 10)
    cut_ends: list[int] = []
    store.after_cut.append(lambda end: cut_ends.append(end))
    await store.cut(offsets[4])
    assert cut_ends == [offsets[4]]
    answer = store.get("T", 0, 5, 32, 1 << 20)
    assert (answer.status, answer.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 2)


async def test_a_sync_that_began_before_the_cut_says_nothing_of_what_came_after(world: World) -> None:
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    told: list[PutStatus] = []
    _first, second = put_ok(store, b"first", b"second")
    await world.clock.settle()
    world.sync.call_one()  # the disk has both, the loop has not heard of it
    await store.cut(second.physical_offset)
    (other,) = put_ok(store, b"other!")
    store.when_durable(other, wait=True, done=told.append)
    await world.clock.settle()
    world.sync.report_one()
    assert (told, store.flushed_offset <= second.physical_offset) == ([], True)
    world.sync.run_all()
    assert (told, bodies_of(store)) == ([PutStatus.OK], [b"first", b"other!"])


async def test_a_deletion_is_noted_no_further_than_the_log_reaches(world: World) -> None:
    store = await world.started()
    put_ok(store, b"old", topic="kept")
    (cut,) = put_ok(store, b"cut", topic="gone")
    store.delete_topics(["gone"])
    await store.cut(cut.physical_offset)
    put_ok(store, b"new", topic="gone")
    await world.killed()
    store = await world.started()
    assert (bodies_of(store, "gone"), bodies_of(store, "kept")) == ([b"new"], [b"old"])


async def test_queues_that_cannot_be_synced_stop_the_store_until_it_is_recovered(world: World) -> None:
    store = await world.started()
    offsets = fill(store, "a", 9)
    await world.clock.run_for(70_000)
    world.files.plan.add(Fault("sync", "consumequeue"))
    with pytest.raises(OSError, match="Input/output"):
        await store.cut(offsets[4])
    refused = store.put(message())
    assert (refused.status, "could not be cut" in refused.reason) == (PutStatus.SERVICE_NOT_AVAILABLE, True)
    await world.killed()
    assert sum(map(len, contents(await world.started()).values())) == 4


async def test_the_write_pool_gets_its_buffers_back(world: World) -> None:
    store = await world.started(write_pool_enabled=True, write_pool_buffers=3)
    offsets = fill(store, "a", 20)
    await world.clock.run_for(1000)
    await store.cut(offsets[2])
    assert store.log.pool is not None
    fill(store, "b", 20)
    await world.clock.run_for(1000)
    await store.cut(store.min_physical_offset)
    assert store.log.pool.free == 3
    fill(store, "c", 6)
    await world.clock.run_for(1000)
    assert contents(store)[0][0].startswith(b"c0")


async def test_a_view_that_is_held_keeps_its_bytes(tmp_path: Path) -> None:
    """On a real disk: the mapping of the old file lives on under the reader's feet."""
    config = StoreConfig(commit_log_file_bytes=1 << 16, index_slots=11, index_entries=100)
    store = MessageStore(tmp_path, config, files=PosixFiles(), workers=InlineWorker)
    await store.start()
    offsets = fill(store, "a", 40)
    for cut_at in (offsets[30], offsets[20]):
        held = store.get("T", 0, 0, 32, 1 << 20).slices
        before = [bytes(part) for part in held]
        await store.cut(cut_at)
        fill(store, "b", 20)
        assert [bytes(part) for part in held] == before
        assert before != [bytes(part) for part in store.get("T", 0, 0, 32, 1 << 20).slices]
    del held
    inode = (tmp_path / "commitlog" / f"{0:020d}").stat().st_ino
    await store.cut(offsets[10])  # nobody looks: no copy is made
    assert (tmp_path / "commitlog" / f"{0:020d}").stat().st_ino == inode
    expected = contents(store)
    await store.stop()
    store = MessageStore(tmp_path, config, files=PosixFiles(), workers=InlineWorker)
    await store.start()
    assert contents(store) == expected
    await store.stop()


async def test_a_crash_while_a_file_is_made_anew_leaves_the_old_one(world: World) -> None:
    store = await world.started()
    offsets = fill(store, "a", 9)
    held, before = store.get("T", 0, 0, 32, 1 << 20), contents(store)
    world.files.plan.add(Fault("rename", "cut"))
    with pytest.raises(OSError, match="Input/output"):
        await store.cut(offsets[4])
    assert world.disk.list_dir(ROOT / "commitlog/cut") == [f"{0:020d}"]
    assert held.count == 5
    await world.killed()
    store = await world.started()
    assert (contents(store), world.disk.exists(ROOT / "commitlog/cut")) == (before, False)


# -- a crash at each step ----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process dies here."""


class Death(FaultPlan):
    """Lets the process die before a step of the disk; `steps` are those that were done."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.is_near = False
        self.steps: list[str] = []

    def take(self, call: str, path: Path) -> Fault | None:
        if self.is_near and call in _STEPS:
            if len(self.steps) == self.at:
                raise Killed
            self.steps.append(f"{call} {path.name}")
        return super().take(call, path)


_STEPS = ("pwrite", "sync", "truncate", "remove", "rename", "write_bytes", "sync_dir", "make_dirs")


async def cut_and_die(step: int, *, power: bool) -> bool:
    """One life: filled, cut with a death before that step, recovered, cut again, filled anew. False: it did not die."""
    world, death = World(), Death(step)
    world.files, steps = FaultyFiles(world.disk, death), death.steps
    store = await world.started(queue_flush_thorough_interval_ms=1000, flush_thorough_interval_ms=1000)
    offsets = fill(store, "a", 24)
    await world.clock.run_for(4000)  # everything is on disk, and the checkpoint says so
    fill(store, "late", 6)
    original, cut_at = contents(store), offsets[7]
    expected = {queue_id: bodies[: 4 - queue_id] for queue_id, bodies in original.items()}
    death.is_near, died = True, False
    try:
        await store.cut(cut_at)
    except Killed:
        died = True
    death.is_near = False
    await world.killed()
    if power:
        world.disk = world.disk.power_cut(random.Random(step))
        world.files = FaultyFiles(world.disk)
    store = await world.started()
    assert store.max_physical_offset >= cut_at, steps
    for queue_id, bodies in contents(store).items():
        assert bodies == original[queue_id][: len(bodies)], steps
        assert len(bodies) >= len(expected[queue_id]), steps
    if store.max_physical_offset > cut_at:
        await store.cut(cut_at)
    assert contents(store) == expected, steps
    fill(store, "b", 24)
    found = contents(store)
    await world.killed()
    store = await world.started()
    assert contents(store) == found, steps
    assert key_hits(store, "b23") == [b"b23"]
    await store.stop()
    assert audit_store(ROOT, files=world.disk, index_slots=11, index_entries=100) == [], steps
    await world.killed()
    return died


@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_at_any_step_of_a_cut_leaves_a_store_that_is_recovered_and_cut_again(power: bool) -> None:
    step = 0
    while await cut_and_die(step, power=power):
        step += 1
    assert step > 20
