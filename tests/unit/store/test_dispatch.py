from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode
from rocketlake.codec.record import encode_blank, encode_record, record_size
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch import Dispatch
from rocketlake.store.dispatch_scan import appended_entry
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.mapped_file_list import MappedFileList

ROOT = Path("/store")
HOST = encode_host("10.0.0.1", 10911)
LOG_FILE = 2000
FOREVER = 2**62
DELAYS_MS = (1000, 5000)


class Store:
    """A log with its queues and index, written by hand."""

    def __init__(self, disk: Files, *, log_file: int = LOG_FILE) -> None:
        self.disk = disk
        self.log = MappedFileList(ROOT / "commitlog", log_file, disk)
        self.log.load()
        self.table = ConsumeQueueTable(ROOT / "consumequeue", disk, file_size=100)
        self.table.load()
        self.index = KeyIndex(ROOT / "index", disk, ManualClock(), slots=13, entries_max=10)
        self.index.load(last_exit_ok=True, index_ms=0)
        self.deletions = Deletions(disk, ROOT / "deletedTopics.json")
        self.dispatch = Dispatch(self.log, self.table, self.index, self.deletions, DELAYS_MS)
        self.arrivals: list[tuple[str, int, int, int, int]] = []
        self.dispatch.on_arrival = lambda *arrival: self.arrivals.append(arrival)

    def append(
        self,
        topic: str = "T",
        queue_id: int = 0,
        *,
        tags: str = "A",
        key: str = "",
        sys_flag: int = 0,
        body: bytes = b"body",
        remember: bool = False,
    ) -> int:
        """Append a record as the commit log does; `remember` tells dispatch about it. Returns its physical offset."""
        properties = encode({"TAGS": tags, "KEYS": key} if key else {"TAGS": tags})
        size = record_size(len(topic), len(body), len(properties))
        last = self.log.last
        if last is not None and size + 8 > last.room:
            last.close_with(encode_blank(last.room))
        offset = self.log.wrote_offset
        queue_offset = self.table.assign(topic, queue_id) if sys_flag in (0, 8) else 0
        fields = {"queue_id": queue_id, "queue_offset": queue_offset, "physical_offset": offset, "sys_flag": sys_flag}
        self.log.append(
            encode_record(
                topic.encode(), body, properties, **fields,
                flag=0, born_ms=1, born_host=HOST, store_ms=5000 + offset, store_host=HOST, reconsume_times=0,
                prepared_transaction_offset=0, body_crc=zlib.crc32(body) & 0x7FFFFFFF,
            )
        )  # fmt: skip
        if remember:
            self.dispatch.appended(
                appended_entry(
                    topic, queue_id, queue_offset, offset, size, 5000 + offset, sys_flag, 0, properties, DELAYS_MS
                )
            )
        return offset

    def run(self) -> bool:
        return self.dispatch.run(self.log.max_offset)

    def bytes_of_all(self) -> dict[str, bytes]:
        """Content of every queue and index file by path."""
        self.index.flush()
        found = {}
        for folder in (ROOT / "consumequeue", ROOT / "index"):
            waiting = [folder]
            while waiting:
                path = waiting.pop()
                if self.disk.is_dir(path):
                    waiting += [path / name for name in self.disk.list_dir(path)]
                elif self.disk.exists(path):
                    found[str(path)] = self.disk.read_bytes(path)
        return found


def fill(store: Store, *, remember: bool, run_each: bool) -> None:
    for number in range(60):
        store.append(
            ("T", "SCHEDULE_TOPIC_XXXX", "U")[number % 3],
            number % 2,
            tags=f"tag{number % 5}",
            key=f"k{number}" if number % 4 else "",
            sys_flag=(0, 0, 4, 8, 12)[number % 5],
            body=b"x" * (number * 7 % 300),
            remember=remember,
        )
        if run_each:
            store.run()


def test_a_remembered_record_is_found_in_the_same_turn_without_reading_the_log() -> None:
    store = Store(MemoryFiles())
    offset = store.append(key="k", remember=True)
    store.dispatch._scan_slice = None  # type: ignore[method-assign, assignment]
    assert not store.run()
    assert store.table.max_offset("T", 0) == 1
    assert store.index.find("T#k", 9, 0, FOREVER) == [offset]
    assert store.dispatch.position == store.log.max_offset
    assert store.dispatch.last_store_ms == 5000


def test_remembering_and_scanning_write_the_same_bytes() -> None:
    scanned, remembered, mixed = (Store(MemoryFiles()) for _ in range(3))
    fill(scanned, remember=False, run_each=False)
    scanned.dispatch.run_all(scanned.log.max_offset)
    fill(remembered, remember=True, run_each=True)
    fill(mixed, remember=True, run_each=False)
    mixed.dispatch.run_all(mixed.log.max_offset)
    # Names of index files are times of the same standing clock.
    assert scanned.bytes_of_all() == remembered.bytes_of_all() == mixed.bytes_of_all()
    assert len(scanned.bytes_of_all()) > 6
    assert scanned.arrivals == remembered.arrivals == mixed.arrivals


def test_dispatching_again_from_the_start_changes_nothing() -> None:
    store = Store(MemoryFiles())
    fill(store, remember=False, run_each=True)
    before = store.bytes_of_all()
    store.dispatch.position = 0
    store.dispatch.run_all(store.log.max_offset)
    assert store.bytes_of_all() == before


def test_arrivals_are_told_with_the_new_end_of_the_queue() -> None:
    store = Store(MemoryFiles())
    first = store.append("T", 1)
    second = store.append("T", 1)
    store.append("T", 1, sys_flag=4)  # a half message arrives nowhere
    store.run()
    assert [(topic, queue, end, stored) for topic, queue, end, _tag, stored in store.arrivals] == [
        ("T", 1, 1, 5000 + first),
        ("T", 1, 2, 5000 + second),
    ]


def test_nothing_behind_the_limit_is_dispatched() -> None:
    store = Store(MemoryFiles())
    store.append(remember=True)
    limit = store.append(remember=True)
    assert not store.dispatch.run(limit)
    assert store.table.max_offset("T", 0) == 1
    assert store.dispatch.position == limit
    assert not store.run()
    assert store.table.max_offset("T", 0) == 2


def test_a_turn_does_a_bounded_piece_of_work() -> None:
    store = Store(MemoryFiles(), log_file=4_000_000)
    for _ in range(300):
        store.append(body=b"x" * 4000)
    assert store.run()
    done = store.table.max_offset("T", 0)
    assert 0 < done < 100
    while store.run():
        pass
    assert store.table.max_offset("T", 0) == 300


def test_remembered_records_are_dispatched_in_bounded_pieces_too() -> None:
    store = Store(MemoryFiles(), log_file=4_000_000)
    for _ in range(2000):
        store.append(remember=True)
    assert store.run()
    assert 0 < store.table.max_offset("T", 0) < 1000
    while store.run():
        pass
    assert store.table.max_offset("T", 0) == 2000


def test_the_first_record_of_a_new_file_is_dispatched_in_the_same_turn() -> None:
    store = Store(MemoryFiles())
    while len(store.log.files) < 3:
        store.append(remember=True)
        assert not store.run()


def test_a_record_longer_than_a_slice_is_dispatched() -> None:
    store = Store(MemoryFiles(), log_file=4_000_000)
    store.append()
    store.append(body=b"x" * 1_000_000)
    store.append()
    while store.run():
        pass
    assert store.table.max_offset("T", 0) == 3


def test_a_position_below_the_log_moves_to_its_start() -> None:
    store = Store(MemoryFiles())
    for _ in range(40):
        store.append()
    store.log.flush()
    store.log.drop_first(1)
    store.dispatch.run_all(store.log.max_offset)
    assert store.dispatch.position == store.log.max_offset
    assert store.table.find("T", 0) is not None


def test_a_full_disk_stops_dispatch_at_the_record_and_is_no_exception() -> None:
    plan = FaultPlan()
    store = Store(FaultyFiles(MemoryFiles(), plan))
    offsets = [store.append(remember=number == 0) for number in range(7)]
    plan.add(Fault("pwrite", "consumequeue", times=2, error=28))
    assert store.run()
    assert store.dispatch.position == offsets[5]  # five entries are in memory; their file takes no more
    assert "No space left" in store.dispatch.error
    assert len(store.arrivals) == 5
    with pytest.raises(StoreError, match="No space left"):
        store.dispatch.run_all(store.log.max_offset)
    assert not store.run()
    assert store.dispatch.error == ""
    assert store.table.max_offset("T", 0) == 7


def test_damage_in_the_log_is_passed_by() -> None:
    store = Store(MemoryFiles())
    store.append("T")
    damaged = store.append("T")
    store.append("U")
    position = damaged + 84  # body length: the parts do not add up, but the total size is there
    mapped = store.log.find(damaged)
    assert mapped is not None
    mapped.file.pwrite(b"\0\0\0\0", position)
    store.dispatch.run_all(store.log.max_offset)
    assert (store.table.max_offset("T", 0), store.table.max_offset("U", 0)) == (1, 1)


def test_damage_without_a_size_costs_the_rest_of_the_file() -> None:
    store = Store(MemoryFiles())
    for _ in range(40):
        store.append("T")
    mapped = store.log.files[0]
    mapped.file.pwrite(bytes(200), 0)
    store.dispatch.run_all(store.log.max_offset)
    assert store.dispatch.position == store.log.max_offset
    queue = store.table.find("T", 0)
    assert queue is not None
    assert queue.max_offset == 40
    assert queue.min_offset(0) > 0


def test_a_record_whose_topic_can_have_no_queue_stops_nothing() -> None:
    store = Store(MemoryFiles())
    strange = appended_entry("../up", 0, 0, 0, 200, 7000, 0, 0, encode({"KEYS": "k"}), ())
    good = appended_entry("T", 0, 0, 200, 200, 7000, 0, 0, b"", ())
    store.dispatch.rebuild([strange, good])
    assert store.table.topics() == ["T"]
    assert store.index.find("../up#k", 9, 0, FOREVER) == [0]


def test_rebuilding_tells_nobody() -> None:
    store = Store(MemoryFiles())
    entry = appended_entry("T", 0, 0, 0, 200, 7000, 0, 0, encode({"KEYS": "k"}), ())
    store.dispatch.rebuild([entry])
    assert store.arrivals == []
    assert store.dispatch.position == 0
    assert store.table.max_offset("T", 0) == 1
    assert store.index.find("T#k", 9, 0, FOREVER) == [0]
    assert store.dispatch.last_store_ms == 7000


def test_more_remembered_records_than_memory_is_given_to_them_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketlake.store.dispatch._APPENDED_MAX", 5)
    store = Store(MemoryFiles())
    for _ in range(12):
        store.append(remember=True)
    store.dispatch.run_all(store.log.max_offset)
    assert store.table.max_offset("T", 0) == 12


def test_without_an_index_keys_are_ignored() -> None:
    store = Store(MemoryFiles())
    dispatch = Dispatch(store.log, store.table, None, store.deletions)
    store.append(key="k")
    dispatch.run_all(store.log.max_offset)
    assert store.table.max_offset("T", 0) == 1
    assert store.index.files == []
