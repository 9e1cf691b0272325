from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.record import decode_record
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.reader import StoreReader
from rocketlake.store.results import PutMessage, PutStatus

ROOT = Path("/store")
CONFIG = StoreConfig(
    commit_log_file_bytes=4096, consume_queue_file_bytes=200, index_slots=31, index_entries=50, disk_warning_percent=99,
    disk_clean_forcibly_percent=98,
)  # fmt: skip
GOLDEN = Path(__file__).parents[2] / "golden/stores/apache-5.3.3-clean"
WRITING_CALLS = {"pwrite", "sync", "truncate", "make_dirs", "remove", "rename", "write_bytes", "sync_dir"}


async def started(disk: Files, root: Path = ROOT) -> MessageStore:
    store = MessageStore(root, CONFIG, files=disk, clock=ManualClock(), workers=InlineWorker)
    await store.start()
    return store


def put(store: MessageStore, count: int, *, topic: str = "T", first: int = 0) -> None:
    for number in range(first, first + count):
        result = store.put(PutMessage(topic, number % 2, b"body %d" % number))
        assert result.status is PutStatus.OK, result.reason


def bodies(reader: StoreReader, topic: str, queue_id: int) -> list[bytes]:
    start, end = reader.queue_range(topic, queue_id)
    return [decode_record(record).body for record in reader.records(topic, queue_id, start, end)]


async def test_all_queues_of_a_stopped_store_are_read() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 101)
    put(store, 3, topic="U")
    await store.stop()
    reader = StoreReader(ROOT, files=disk)
    assert reader.topics() == ["T", "U"]
    assert reader.queue_ids("T") == [0, 1]
    assert (reader.queue_range("T", 0), reader.queue_range("T", 1)) == ((0, 51), (0, 50))
    assert bodies(reader, "T", 1) == [b"body %d" % number for number in range(1, 101, 2)]
    assert sum(1 for _ in reader.scan_log()) == 104
    assert reader.log_end().torn == ""


async def test_a_folder_above_the_store_is_answered_with_the_store() -> None:
    disk = MemoryFiles()
    await (await started(disk, Path("/data/store"))).stop()
    with pytest.raises(StoreError, match="no commit log here") as missing:
        StoreReader(Path("/data"), files=disk)
    assert missing.value.hint.startswith("give /data/store")


async def test_a_range_gives_these_offsets_and_no_others() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 60)
    store.queues.flush()
    reader = StoreReader(ROOT, files=disk)
    assert [decode_record(record).queue_offset for record in reader.records("T", 0, 7, 23)] == list(range(7, 23))
    await store.stop()


async def test_a_live_store_is_read_without_touching_it() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 30)
    store.queues.flush()
    plan = FaultPlan()
    reader = StoreReader(ROOT, files=FaultyFiles(disk, plan))
    assert len(bodies(reader, "T", 0)) == 15
    put(store, 300, first=30)
    put(store, 1, topic="new")
    store.queues.flush()
    reader.refresh()
    assert len(bodies(reader, "T", 0)) == 165
    assert reader.topics() == ["T", "new"]
    assert reader.log_end().torn == ""
    reader.close()
    assert {call for call, _path in plan.calls} & WRITING_CALLS == set()
    await store.stop()


async def test_a_folder_without_write_permission_is_read(tmp_path: Path) -> None:
    store = await started(PosixFiles(), tmp_path)
    put(store, 10)
    await store.stop()
    paths = list(tmp_path.rglob("*"))  # noqa: ASYNC240
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        reader = StoreReader(tmp_path)
        assert len(bodies(reader, "T", 0)) == 5
        reader.close()
    finally:
        for path in paths:
            path.chmod(0o755)


async def test_records_below_the_log_are_not_offered() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 200)
    await store.stop()
    disk.remove(ROOT / "commitlog" / f"{0:020d}")
    reader = StoreReader(ROOT, files=disk)
    start, end = reader.queue_range("T", 0)
    assert 0 < start < end == 100
    assert bodies(reader, "T", 0) == [b"body %d" % (2 * number) for number in range(start, 100)]


async def test_in_a_copy_queues_may_reach_further_than_the_log() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 20)
    await store.stop()
    last = disk.list_dir(ROOT / "commitlog")[-1]
    log = disk.read_bytes(ROOT / "commitlog" / last)
    records = StoreReader(ROOT, files=disk)
    cut = [entry for entry in records.scan_log()][-4].physical_offset + 30
    disk.write_bytes(ROOT / "commitlog" / last, log[: cut - int(last)])
    reader = StoreReader(ROOT, files=disk)
    assert (reader.queue_range("T", 0), reader.queue_range("T", 1)) == ((0, 8), (0, 8))
    end = reader.log_end()
    assert end.physical_offset == cut - 30
    assert "no sound record" in end.torn


async def test_a_torn_tail_is_reported_with_its_place() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 5)
    end = store.max_physical_offset
    await store.stop()
    disk.open(ROOT / "commitlog" / f"{0:020d}").pwrite(b"\0\0\0\x70\xda\xa3", end)
    found = StoreReader(ROOT, files=disk).log_end()
    assert found.physical_offset == end
    assert found.path == str(ROOT / "commitlog" / f"{0:020d}")
    assert str(end + 3) in found.torn


async def test_a_damaged_record_inside_a_range_is_an_error_that_names_it() -> None:
    disk = MemoryFiles()
    store = await started(disk)
    put(store, 20)
    await store.stop()
    reader = StoreReader(ROOT, files=disk)
    entries = list(reader.entries("T", 0, 0, 10))
    disk.open(ROOT / "commitlog" / f"{0:020d}").pwrite(b"X", entries[3][1] + 88)
    with pytest.raises(StoreError, match="offset 3 in queue 0 of T is damaged") as caught:
        list(reader.records("T", 0, 0, 10))
    assert caught.value.offset == entries[3][1]
    assert reader.record(entries[3][1]) is None
    assert reader.record(entries[4][1]) is not None


def test_a_folder_without_a_commit_log_is_refused_with_a_hint() -> None:
    with pytest.raises(StoreError, match="storePathRootDir"):
        StoreReader(Path("/nothing"), files=MemoryFiles())


def test_unknown_queues_and_wild_offsets_give_nothing() -> None:
    disk = MemoryFiles()
    disk.make_dirs(ROOT / "commitlog")
    reader = StoreReader(ROOT, files=disk)
    assert reader.queue_range("T", 0) == (0, 0)
    assert list(reader.records("T", 0, 0, 10)) == []
    assert reader.record(-1) is reader.record(2**62) is None
    assert list(reader.scan_log()) == []
    assert reader.log_end().physical_offset == 0


def test_apaches_store_is_read() -> None:
    reader = StoreReader(GOLDEN)
    counts = {
        topic: sum(len(bodies(reader, topic, queue_id)) for queue_id in reader.queue_ids(topic))
        for topic in reader.topics()
    }
    assert counts["Golden"] == 704
    assert sum(counts.values()) == sum(1 for _ in reader.scan_log())
    assert reader.log_end().torn == ""
    reader.close()
