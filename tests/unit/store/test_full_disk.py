"""A start on a full disk: the store is read, takes nothing, and makes up for what it could not write."""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import is_no_room
from rocketlake.base.worker import InlineWorker
from rocketlake.store.config import StoreConfig
from rocketlake.store.key_index.file import KeyIndexFile
from rocketlake.store.late_steps import LateSteps
from rocketlake.store.mapped_file_list import MappedFileList
from rocketlake.store.message_store import MessageStore
from rocketlake.store.reader import StoreReader
from rocketlake.store.results import GetStatus, PutMessage, PutStatus
from tests.unit.store.store_world import ROOT, World, abandon, bodies_of, message, put_ok

QUEUE = ROOT / "consumequeue/T/0"
MEMORY_DISK = Path("/dev/shm")


def fill(world: World, *parts: str, after: int = 0) -> None:
    """From now on no file of these parts of the store gets a new page, and no small file can be written."""
    for part in parts:
        world.files.plan.add(Fault("pwrite", part, after=after, error=errno.ENOSPC))
    world.files.plan.add(Fault("write_bytes", error=errno.ENOSPC))
    world.files.plan.add(Fault("make_dirs", "removed", error=errno.ENOSPC))


def keyed(body: bytes, key: str) -> PutMessage:
    return message(body, properties=f"KEYS\x01{key}\x02".encode())


async def killed_with(world: World, count: int) -> list[bytes]:
    """A store with so many messages in one queue, killed before anything of them was flushed; its queues are lost."""
    store = await world.started()
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        assert store.put(keyed(body, f"key{body.decode()}")).status is PutStatus.OK
    await world.killed()
    for name in world.disk.list_dir(QUEUE):
        world.disk.remove(QUEUE / name)
    return bodies


async def test_a_store_opens_without_room_and_makes_up_for_it(world: World) -> None:
    bodies = await killed_with(world, 35)
    fill(world, "consumequeue", "index")
    store = await world.started()
    assert not store.is_complete
    refused = store.put(message())
    assert refused.status is PutStatus.DISK_FULL
    assert "disk full" in refused.reason and "No space left" in refused.reason
    assert store.health.troubles["store/writes"].reason == refused.reason
    assert bodies_of(store) == bodies[: store.max_offset("T", 0)]
    world.files.plan.clear()
    await world.clock.run_for(3000)
    assert store.is_complete and store.writable
    assert store.health.is_green
    assert bodies_of(store) == bodies
    assert put_ok(store, b"next")[0].queue_offset == 35
    assert [bytes(found) for found in store.query("T", "key30", 8, 0, 2**60).slices] != []
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")


async def test_queues_are_read_though_the_index_has_no_room(world: World) -> None:
    bodies = await killed_with(world, 9)  # they fit into the queue's file and wait in memory
    fill(world, "index")
    store = await world.started()
    assert not store.writable
    assert bodies_of(store) == bodies


@pytest.mark.parametrize("clean", [False, True])
async def test_an_index_that_is_loaded_late_and_lacks_keys_is_made_anew(world: World, *, clean: bool) -> None:
    store = await world.started(index_entries=20)
    for number in range(70):
        assert store.put(keyed(b"x", f"key{number}")).status is PutStatus.OK
    await world.clock.run_for(300_000)  # all of it is safe, and noted
    await (store.stop() if clean else world.killed())
    names = sorted(world.disk.list_dir(ROOT / "index"))
    for name in names[-2:]:
        world.disk.remove(ROOT / "index" / name)
    fill(world, "index")
    store = await world.started(index_entries=20)
    assert not store.is_complete
    world.files.plan.clear()
    await world.clock.run_for(5000)
    assert store.is_complete and store.writable
    assert [number for number in range(70) if not store.query("T", f"key{number}", 8, 0, 2**60).slices] == []
    index, count = store.index, len(store.index.files)
    index.load(last_exit_ok=True, index_ms=0)  # as a step that is tried again
    assert len(index.files) == count


async def test_a_consumer_is_not_sent_back_while_the_end_of_its_queue_is_not_known(world: World) -> None:
    await killed_with(world, 35)
    fill(world, "consumequeue")
    store = await world.started()
    assert store.max_offset("T", 0) < 35
    answer = store.get("T", 0, 35, 32, 1 << 20)
    assert (answer.status, answer.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 35)
    world.files.plan.clear()
    await world.clock.run_for(3000)
    assert store.get("T", 0, 36, 32, 1 << 20).status is GetStatus.OFFSET_OVERFLOW_BADLY


async def test_what_waits_for_the_whole_store_is_called_when_it_is_there(world: World) -> None:
    await killed_with(world, 35)
    fill(world, "consumequeue")
    store = await world.started()
    ends: list[int] = []
    store.when_complete(lambda: ends.append(store.max_offset("T", 0)))
    assert ends == []
    world.files.plan.clear()
    await world.clock.run_for(3000)
    assert ends == [35]


async def test_a_stop_without_room_is_not_a_clean_one(world: World) -> None:
    bodies = await killed_with(world, 35)
    fill(world, "consumequeue", "index")
    store = await world.started()
    await store.stop()
    assert world.disk.exists(ROOT / "abort")
    world.files.plan.clear()
    store = await world.started()
    assert bodies_of(store) == bodies


async def test_a_queue_to_be_built_again_gives_no_offset_out_twice(world: World) -> None:
    store = await world.started()
    put_ok(store, *[b"%d" % number for number in range(35)])
    await store.stop()
    for name in world.disk.list_dir(QUEUE):
        world.disk.remove(QUEUE / name)
    fill(world, "consumequeue")
    store = await world.started()
    assert store.put(message()).status is PutStatus.DISK_FULL
    await world.killed()  # and once more
    fill(world, "consumequeue", after=1)
    store = await world.started()
    assert not store.writable
    world.files.plan.clear()
    await world.clock.run_for(3000)
    assert bodies_of(store) == [b"%d" % number for number in range(35)]
    assert put_ok(store, b"next")[0].queue_offset == 35


class History:
    """Puts, kills, stops and starts, some of these on a full disk; what was taken must be there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.taken: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(3)}
        self._count = 0

    async def _started(self) -> MessageStore:
        return await self.world.started(queue_flush_thorough_interval_ms=2000)

    async def run(self) -> None:
        for _ in range(self.random.randrange(2, 7)):
            store = await self._started()
            await self._start_without_room(store)
            store = self.world.opened[-1]
            await self._put_some(store)
            if self.random.random() < 0.3:
                await store.stop()
                self.world.opened.clear()
            await self.world.killed()
        self._judge(await self._started())
        await self.world.killed()

    async def _start_without_room(self, store: MessageStore) -> None:
        """Kill it at once, and start again on a disk that fills up in the middle of the start."""
        if self.random.random() < 0.5:
            await store.stop()
            self._damage()
        await self.world.killed()
        for part in self.random.sample(["consumequeue", "index"], self.random.randrange(1, 3)):
            fill(self.world, part, after=self.random.choice([0, 0, 1, 5, 20]))
        store = await self._started()
        self._judge_part(store)
        self.world.files.plan.clear()
        await self.world.clock.run_for(3000)
        assert store.writable, store.not_writable_reason
        self._judge(store)

    def _damage(self) -> None:
        """A queue loses its files, now and then. After a clean stop: only then is each end known."""
        folder = ROOT / "consumequeue/T" / str(self.random.randrange(3))
        if self.random.random() < 0.4:
            for name in self.world.disk.list_dir(folder):
                self.world.disk.remove(folder / name)

    async def _put_some(self, store: MessageStore) -> None:
        for _ in range(self.random.randrange(40)):
            self._count += 1
            queue_id = self.random.randrange(3)
            result = store.put(message(b"%d" % self._count, queue_id=queue_id, properties=b"KEYS\x01k\x02"))
            assert result.status is PutStatus.OK, result.reason
            assert result.queue_offset == len(self.taken[queue_id]), "a queue offset is given out once"
            self.taken[queue_id].append(b"%d" % self._count)
            if self.random.random() < 0.05:
                await self.world.clock.run_for(self.random.choice([500, 3000]))

    def _judge_part(self, store: MessageStore) -> None:
        for queue_id, bodies in self.taken.items():
            found = bodies_of(store, queue_id=queue_id)
            assert found == bodies[: len(found)]

    def _judge(self, store: MessageStore) -> None:
        for queue_id, bodies in self.taken.items():
            assert bodies_of(store, queue_id=queue_id) == bodies


@pytest.mark.parametrize("first", range(0, 30, 10))
async def test_nothing_taken_is_lost_when_starts_have_no_room(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            await History(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def test_steps_that_wait_keep_their_order() -> None:
    steps, done = LateSteps(), []
    room = False

    def step(name: str) -> bool:
        if not room:
            raise OSError(errno.EDQUOT, "no more for you", "/store/x")
        done.append(name)
        return True

    steps.then("one", lambda: step("one"))
    steps.then("two", lambda: step("two"))
    assert steps.are_open and "one" in steps.reason and "/store/x" in steps.reason
    steps.retry()
    assert done == []
    room = True
    steps.retry()
    assert done == ["one", "two"] and steps.reason == ""


def test_another_error_than_a_full_disk_is_raised() -> None:
    def step() -> bool:
        raise OSError(errno.EIO, "broken")

    with pytest.raises(OSError, match="broken"):
        LateSteps().then("one", step)
    assert not is_no_room(OSError(errno.EIO, "broken"))


# -- holes of files in memory: a look at one takes a page, and kills the process when there is none --------------------


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder on a tmpfs."""
    if not MEMORY_DISK.is_dir():
        pytest.skip(f"there is no {MEMORY_DISK}")
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-test-", dir=MEMORY_DISK))
    try:
        with closing(PosixFiles().open(folder / "1", size=1, create=True)) as probe:
            if not probe.holes_take_space:
                pytest.skip(f"{MEMORY_DISK} is no tmpfs")
        (folder / "1").unlink()
        yield folder
    finally:
        shutil.rmtree(folder)


def taken(folder: Path) -> int:
    """Bytes that the files of a folder have on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


async def test_reading_takes_no_space_of_a_disk_in_memory(in_memory: Path) -> None:
    config = StoreConfig(
        commit_log_file_bytes=1 << 20, consume_queue_file_bytes=1 << 20, index_slots=500_000, index_entries=100_000
    )

    def opened() -> MessageStore:
        return MessageStore(in_memory / "store", config, workers=InlineWorker)

    store = opened()
    await store.start()
    for number in range(90):  # two files of the log and a part of a third
        store.put(keyed(bytes(30_000), f"k{number}"))
    assert len(store.log.list.files) == 3
    store.index.files[-1].write_out()
    await abandon(store)
    store._opening.release()
    before = taken(in_memory)
    store = opened()
    await store.start()
    after_start = taken(in_memory)
    assert after_start <= before + 64 * 1024, "the walk of a start looks at no hole behind the end"
    for number in range(600):  # half of them in slots that no page is there for
        store.query("T", f"k{number}", 8, 0, 2**60)
    for mapped in store.log.list.files:
        assert mapped.read(mapped.size - 8, 8) is None
        assert store.log.record(mapped.end - 100) is None
        sum(mapped.view[: mapped.readable])
    assert sum(len(view) for _start, view in store.log_views(0)) <= store.max_physical_offset
    assert taken(in_memory) == after_start
    await store.stop()
    with closing(StoreReader(in_memory / "store").log) as log:
        assert len(log.view(0, 1 << 20)) == 1 << 20
    assert taken(in_memory) <= after_start


def test_a_hole_between_records_is_filled_when_the_file_is_opened(in_memory: Path) -> None:
    mapped = MappedFileList(in_memory, 64 * 1024, PosixFiles())
    file = mapped.file_for_append()
    file.append(b"first")
    file.file.pwrite(b"later", 40_000)
    mapped.close()
    loaded = MappedFileList(in_memory, 64 * 1024, PosixFiles())
    loaded.load()
    assert loaded.files[0].readable == 40_960
    assert bytes(loaded.files[0].view[40_000:40_005]) == b"later"
    loaded.close()


def test_slots_that_leave_are_found_again_in_a_file_of_holes(in_memory: Path) -> None:
    keys = random.Random(7)
    hashes = [keys.randrange(2**31) for _ in range(3000)]
    file = KeyIndexFile(PosixFiles(), in_memory / "1", slots=2_000_000, entries_max=10_000, slots_waiting_max=100)
    for number, hash_code in enumerate(hashes):
        file.put(hash_code, number, 1_700_000_000_000)
    assert taken(in_memory) < 2_000_000 * 4
    assert all(number in file.find(hash_code, 99, 0, 2**60) for number, hash_code in enumerate(hashes))
    file.write_out()
    file.close()
    again = KeyIndexFile(PosixFiles(), in_memory / "1", slots=2_000_000, entries_max=10_000, slots_waiting_max=100)
    for number, hash_code in enumerate(hashes):  # onto the same slots
        again.put(hash_code, 5000 + number, 1_700_000_000_000)
    for number, hash_code in enumerate(hashes):
        assert {number, 5000 + number} <= set(again.find(hash_code, 99, 0, 2**60))
    again.close()
