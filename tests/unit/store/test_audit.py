from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.codec.property_text import encode
from rocketlake.store.audit import audit_store
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.entry import pack_entry
from rocketlake.store.key_index.layout import entry_position, slot_position
from rocketlake.store.key_index.layout import pack_entry as pack_index_entry
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

ROOT = Path("/store")
SLOTS, ENTRIES = 31, 30
CONFIG = StoreConfig(
    commit_log_file_bytes=4096, consume_queue_file_bytes=200, index_slots=SLOTS, index_entries=ENTRIES,
    disk_warning_percent=99, disk_clean_forcibly_percent=98,
)  # fmt: skip
GOLDEN = Path(__file__).parents[2] / "golden/stores/apache-5.3.3-clean"
QUEUE = ROOT / "consumequeue" / "T" / "0" / f"{0:020d}"
LOG = ROOT / "commitlog" / f"{0:020d}"


@pytest.fixture
async def disk() -> MemoryFiles:
    """A store stopped cleanly: 60 messages in two queues of T, half of them with a key, and some delayed ones."""
    disk = MemoryFiles()
    clock = ManualClock()
    store = MessageStore(ROOT, CONFIG, files=disk, clock=clock, workers=InlineWorker)
    await store.start()
    for number in range(60):
        properties = {"TAGS": f"tag{number % 3}"}
        if number % 2:
            properties["KEYS"] = f"k{number} all"
        store.put(PutMessage("T", number % 2, b"body", encode(properties)))
        store.put(PutMessage("SCHEDULE_TOPIC_XXXX", 0, b"later", encode({"DELAY": "1", "TAGS": "A"})))
        clock.advance(1500)
    await store.stop()
    return disk


def kinds(disk: MemoryFiles) -> set[str]:
    findings = audit_store(ROOT, files=disk, index_slots=SLOTS, index_entries=ENTRIES)
    assert all(str(finding).startswith(finding.kind) for finding in findings)
    return {finding.kind for finding in findings}


def index_path(disk: MemoryFiles, number: int) -> Path:
    return ROOT / "index" / disk.list_dir(ROOT / "index")[number]


def overwrite(path: Path, data: bytes, position: int) -> Callable[[MemoryFiles], None]:
    return lambda disk: disk.open(path).pwrite(data, position)


def test_a_store_stopped_cleanly_has_no_finding(disk: MemoryFiles) -> None:
    assert kinds(disk) == set()


def test_apaches_store_has_no_finding() -> None:
    assert audit_store(GOLDEN, index_slots=97, index_entries=400) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (overwrite(QUEUE, bytes(20), 5 * 20), {"queue-missing"}),
        (overwrite(QUEUE, pack_entry(0, 92, 0), 5 * 20), {"queue-wrong"}),
        (overwrite(QUEUE, b"\xff", 5 * 20 + 19), {"queue-wrong"}),  # one bit of the tag code
        (overwrite(LOG, b"X", 88), {"log-end", "queue-extra", "index-extra"}),  # a body byte of the first record
        (overwrite(LOG, b"\0\0\0\0\0\0\0\0\0\0\0\x07", 20 - 4), {"queue-missing"}),
    ],
)
def test_each_damage_is_found(disk: MemoryFiles, change: Callable[[MemoryFiles], None], expected: set[str]) -> None:
    change(disk)
    assert kinds(disk) & expected == expected


def test_entries_behind_the_log_are_found(disk: MemoryFiles) -> None:
    last = ROOT / "consumequeue" / "T" / "0" / f"{400:020d}"
    assert disk.list_dir(last.parent)[-1] == last.name
    disk.open(last).pwrite(pack_entry(10**6, 100, 0), 10 * 20 - 20)
    assert kinds(disk) == {"queue-wrong"}
    disk.write_bytes(ROOT / "consumequeue" / "T" / "0" / f"{600:020d}", pack_entry(10**6, 100, 0) + bytes(180))
    assert kinds(disk) == {"queue-wrong", "queue-extra"}


def test_a_queue_that_no_record_names_is_found(disk: MemoryFiles) -> None:
    disk.make_dirs(ROOT / "consumequeue" / "Z" / "0")
    disk.write_bytes(ROOT / "consumequeue" / "Z" / "0" / f"{0:020d}", pack_entry(0, 100, 0) + bytes(180))
    assert kinds(disk) == {"queue-extra"}


def test_a_missing_queue_is_found(disk: MemoryFiles) -> None:
    for name in disk.list_dir(QUEUE.parent):
        disk.remove(QUEUE.parent / name)
    assert kinds(disk) == {"queue-missing"}


def test_index_damage_is_found(disk: MemoryFiles) -> None:
    path = index_path(disk, 0)
    before = disk.read_bytes(path)
    position = entry_position(SLOTS, 3)
    for data, at, expected in (
        (bytes(4 * SLOTS), slot_position(0), {"index-slot"}),
        (pack_index_entry(1, 10**6, 0, 0), position, {"index-missing", "index-extra"}),
        ((2).to_bytes(4, "big"), position + 16, {"index-link"}),
        ((1).to_bytes(4, "big"), 32, {"index-header"}),
        ((10).to_bytes(4, "big"), 36, {"index-missing"}),
    ):
        disk.open(path).pwrite(data, at)
        assert expected <= kinds(disk), expected
        disk.write_bytes(path, before)
    assert kinds(disk) == set()


def test_a_missing_newest_index_file_is_found(disk: MemoryFiles) -> None:
    disk.remove(index_path(disk, -1))
    assert kinds(disk) == {"index-missing"}


@pytest.mark.parametrize("clean", [True, False])
async def test_a_store_without_its_index_makes_it_anew(disk: MemoryFiles, clean: bool) -> None:
    while disk.list_dir(ROOT / "index"):
        disk.remove(index_path(disk, 0))
    if not clean:
        disk.write_bytes(ROOT / "abort", b"1")
    store = MessageStore(ROOT, CONFIG, files=disk, clock=ManualClock(), workers=InlineWorker)
    await store.start()
    assert len(store.query("T", "all", 64, 0, 2**62).slices) == 30
    await store.stop()
    assert kinds(disk) == set()


def test_a_missing_oldest_index_file_is_no_finding_as_old_files_expire(disk: MemoryFiles) -> None:
    disk.remove(index_path(disk, 0))
    assert kinds(disk) <= {"index-missing"}


def test_an_index_file_of_another_size_is_found(disk: MemoryFiles) -> None:
    disk.write_bytes(index_path(disk, 0), b"short")
    assert "index-file" in kinds(disk)


def test_old_log_files_may_be_gone(disk: MemoryFiles) -> None:
    disk.remove(LOG)
    assert kinds(disk) == set()


def test_findings_are_limited(disk: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketlake.store.audit._FINDINGS_MAX", 7)
    for name in disk.list_dir(QUEUE.parent):
        disk.remove(QUEUE.parent / name)
    assert len(audit_store(ROOT, files=disk, with_index=False)) == 7
