"""Stores of DLedger as Apache could have written them: an older log, other entries, a running broker."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.store.config import StoreConfig
from rocketlake.store.dledger.conversion import Conversion
from rocketlake.store.dledger.plain_log import PlainLog
from rocketlake.store.reader import StoreReader
from tests.golden.test_dledger_store import STORE, entry_records

FILE_BYTES = 16_384
RECORDS = [record for record in entry_records(STORE) if len(record) < 2000]
SOURCE, TARGET = Path("/source"), Path("/target")


class DLedgerWriter:
    """Writes entries as DLedger does."""

    def __init__(self, disk: MemoryFiles, start: int = 0) -> None:
        self.disk = disk
        self.position = start
        self.index = 0
        self.term = 0
        self.folder = SOURCE / "dledger-n0" / "data"
        disk.make_dirs(self.folder)

    def write(self, records: Sequence[bytes], magic: int = 1) -> None:
        for record in records:
            left = FILE_BYTES - self.position % FILE_BYTES
            size = 48 + len(record)
            if size + 8 > left:
                self.put(struct.pack(">ii", -1, left))
                self.position += left
            at = (self.position + 48).to_bytes(8, "big")
            body = record[:28] + at + record[36:] if record else b""
            self.put(
                struct.pack(">iiqqqiiii", magic, size, self.index, self.term, self.position, 0, 0, 0, len(body)) + body
            )
            self.position += size
            self.index += 1

    def put(self, data: bytes) -> None:
        start = self.position - self.position % FILE_BYTES
        file = self.disk.open(self.folder / f"{start:020d}", size=FILE_BYTES, create=True)
        file.pwrite(data, self.position - start)
        file.close()

    def stop(self) -> None:
        self.disk.write_bytes(self.folder.parent / "checkpoint", b"endIndex=%d\n" % (self.index - 1))

    def kill(self, committed_index: int) -> None:
        """The member was killed; it noted its end and what is committed some time before."""
        self.disk.write_bytes(SOURCE / "abort", b"1")
        note = b"endIndex=%d\ncommittedIndex=%d\n" % (committed_index, committed_index)
        self.disk.write_bytes(self.folder.parent / "checkpoint", note)

    def damage(self, index: int, byte: int, magic: bytes = b"\xff") -> None:
        """A byte of an entry; all of them hold the first record."""
        file = self.disk.open(self.folder / f"{0:020d}")
        file.pwrite(magic, index * (48 + len(RECORDS[0])) + byte)
        file.close()


BODY, SIZE_FIELD, INDEX_FIELD = 54, 7, 15


async def converted(disk: MemoryFiles) -> list[bytes]:
    await Conversion(SOURCE, disk=disk).run(
        TARGET, StoreConfig(commit_log_file_bytes=FILE_BYTES, index_slots=97, index_entries=400)
    )
    reader = StoreReader(TARGET, files=disk)
    return [bytes(reader.record(each.physical_offset) or b"") for each in reader.scan_log()]


def same(found: list[bytes], wanted: Sequence[bytes]) -> bool:
    return [each[:28] + each[36:] for each in found] == [each[:28] + each[36:] for each in wanted]


async def test_the_log_from_before_dledger_comes_first() -> None:
    disk = MemoryFiles()
    disk.make_dirs(SOURCE / "commitlog")
    old = PlainLog(SOURCE / "commitlog", FILE_BYTES, disk)
    for record in RECORDS[:100]:
        old.append(memoryview(record))
    old.close()
    left = FILE_BYTES - old.end % FILE_BYTES
    file = disk.open(SOURCE / "commitlog" / f"{old.end - old.end % FILE_BYTES:020d}")
    file.pwrite(struct.pack(">iI", left, 0xCBD43194), old.end % FILE_BYTES)
    writer = DLedgerWriter(disk, old.end + left)
    writer.write(RECORDS[100:150])
    writer.stop()
    assert same(await converted(disk), RECORDS[:150])
    file.pwrite(b"\xff", 1000)
    with pytest.raises(StoreError, match="no sound record starts there"):
        Conversion(SOURCE, disk=disk).look()


async def test_entries_without_a_record_are_counted_and_passed_over() -> None:
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write([b""], magic=2)
    writer.write(RECORDS[:20])
    writer.term = 3
    writer.write([b""], magic=2)
    writer.write(RECORDS[20:60])
    writer.stop()
    done = Conversion(SOURCE, disk=disk).look()
    assert (done.records, done.without_record, done.last_term, done.last_index) == (60, 2, 3, 61)
    assert same(await converted(disk), RECORDS[:60])


async def test_entries_that_an_older_term_left_behind_the_end_are_not_taken() -> None:
    """A member that had to give entries up overwrites them; their bytes stay behind the new ones."""
    disk = MemoryFiles()
    disk.make_dirs(SOURCE)
    disk.write_bytes(SOURCE / "abort", b"1")
    writer = DLedgerWriter(disk)
    writer.write([RECORDS[0]] * 10)
    writer.position, writer.index, writer.term = 4 * (48 + len(RECORDS[0])), 4, 2
    writer.write([RECORDS[0]] * 2)
    done = Conversion(SOURCE, disk=disk).look()
    assert (done.was_stopped, done.last_term, done.last_index, done.records) == (False, 2, 5, 6)


@pytest.mark.parametrize("committed", [-1, 4, 5, 18])
@pytest.mark.parametrize("byte", [BODY, SIZE_FIELD, INDEX_FIELD])
async def test_damage_before_sound_entries_is_no_end_of_a_killed_member(committed: int, byte: int) -> None:
    """Not even above the committed index that it noted: the note is up to 3 s old."""
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write([RECORDS[0]] * 20)
    writer.kill(committed)
    assert Conversion(SOURCE, disk=disk).look().records == 20
    writer.damage(5, byte)
    with pytest.raises(StoreError, match=r"another member.*--give-up-from 5"):
        Conversion(SOURCE, disk=disk).look()
    done = Conversion(SOURCE, given_up_from=5, disk=disk).look()
    assert (done.records, done.last_index) == (5, 4)


async def test_a_torn_end_of_a_killed_member_is_left_out_unless_it_was_committed() -> None:
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write([RECORDS[0]] * 20)
    writer.damage(19, BODY)
    writer.kill(18)
    assert Conversion(SOURCE, disk=disk).look().last_index == 18
    writer.kill(19)
    with pytest.raises(StoreError, match="entries up to 19 are committed"):
        Conversion(SOURCE, disk=disk).look()


def test_an_entry_to_give_up_that_is_not_there_is_an_error() -> None:
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write(RECORDS[:20])
    writer.stop()
    assert Conversion(SOURCE, given_up_from=20, disk=disk).look().records == 20
    with pytest.raises(UsageError, match="the last one is 19"):
        Conversion(SOURCE, given_up_from=22, disk=disk).look()


@pytest.mark.parametrize("target", [SOURCE, SOURCE / "new", SOURCE.parent, Path("/source.unfinished/../source/a")])
async def test_a_target_in_the_source_is_refused(target: Path) -> None:
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write(RECORDS[:3])
    writer.stop()
    before = disk.list_dir(SOURCE)
    with pytest.raises(UsageError, match="lie in one another"):
        await Conversion(SOURCE, disk=disk).run(target)
    assert disk.list_dir(SOURCE) == before


async def test_a_source_with_the_name_of_an_unfinished_target_is_not_removed() -> None:
    source = Path("/data/store.unfinished")
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.folder = source / "dledger-n0" / "data"
    disk.make_dirs(writer.folder)
    writer.write(RECORDS[:3])
    with pytest.raises(UsageError, match="lie in one another"):
        await Conversion(source, disk=disk).run(Path("/data/store"))
    assert Conversion(source, disk=disk).look().records == 3
    writer.folder = SOURCE / "dledger-n0" / "data"
    disk.make_dirs(writer.folder)
    writer.write(RECORDS[:3])
    with pytest.raises(UsageError, match="holds other files"):  # another store than the source has that name
        await Conversion(SOURCE, disk=disk).run(Path("/data/store"))
    assert Conversion(source, disk=disk).look().records == 3


def test_a_source_whose_broker_runs_is_refused() -> None:
    disk = MemoryFiles()
    writer = DLedgerWriter(disk)
    writer.write(RECORDS[:3])
    disk.write_bytes(SOURCE / "lock", b"lock")
    held = disk.lock(SOURCE / "lock")
    with pytest.raises(StoreError, match="in use"):
        Conversion(SOURCE, disk=disk).look()
    held.close()
    assert Conversion(SOURCE, disk=disk).look().records == 3


def test_a_record_longer_than_a_file_names_the_setting() -> None:
    disk = MemoryFiles()
    disk.make_dirs(TARGET)
    log = PlainLog(TARGET, 100, disk)
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        log.append(memoryview(bytes(93)))
