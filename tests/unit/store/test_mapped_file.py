from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.store.mapped_file import PAGE, MappedFile

SIZE = 16 * PAGE


def new_file(files: FaultyFiles | MemoryFiles | PosixFiles, folder: Path = Path("/log")) -> MappedFile:
    files.make_dirs(folder)
    path = folder / "00000000000000000000"
    return MappedFile(files, path, files.open(path, size=SIZE, create=True), 0)


def test_appended_bytes_can_be_read_and_bytes_behind_them_cannot() -> None:
    mapped = new_file(MemoryFiles())
    mapped.append(b"hello")
    assert bytes(mapped.read(0, 5) or b"") == b"hello"
    assert mapped.read(0, 6) is None
    assert mapped.read(-1, 2) is None
    assert (mapped.wrote, mapped.committed, mapped.flushed) == (5, 5, 0)


def test_a_view_taken_before_an_append_sees_it() -> None:
    mapped = new_file(MemoryFiles())
    view = mapped.view
    mapped.append(b"later")
    assert bytes(view[:5]) == b"later"


def test_an_append_beyond_the_end_is_refused_and_changes_nothing() -> None:
    mapped = new_file(MemoryFiles())
    with pytest.raises(StoreError, match="does not fit"):
        mapped.append(bytes(SIZE + 1))
    assert mapped.wrote == 0


def test_closing_with_a_blank_gives_up_the_rest() -> None:
    mapped = new_file(MemoryFiles())
    mapped.append(b"abc")
    mapped.close_with(b"blank")
    assert mapped.is_full
    assert mapped.committed == SIZE
    assert not any(mapped.view[8:])


@pytest.mark.parametrize("kept", [0, 1, 7, 99])
def test_a_torn_write_is_erased_and_the_next_append_takes_its_place(kept: int) -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    mapped.append(b"good")
    files.plan.add(Fault("pwrite", error=errno.ENOSPC, keep_bytes=kept, times=1))
    with pytest.raises(OSError, match="No space"):
        mapped.append(b"x" * 100)
    assert mapped.wrote == 4
    assert bytes(mapped.view[:4]) == b"good"
    assert not any(mapped.view[4:])
    mapped.append(b"next")
    assert bytes(mapped.read(0, 8) or b"") == b"goodnext"


def test_a_torn_write_that_cannot_be_erased_is_a_store_error() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    files.plan.add(Fault("pwrite", keep_bytes=3)).add(Fault("truncate"))
    with pytest.raises(StoreError, match="cannot erase a torn write"):
        mapped.append(b"abcdef")
    assert mapped.wrote == 0


@pytest.mark.parametrize(
    ("done", "reached", "least_pages", "due"),
    [
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, PAGE, 1, True),
        (1, PAGE, 1, True),  # pages are counted from the file's begin, not from `done`
        (PAGE, 2 * PAGE - 1, 1, False),
        (0, 4 * PAGE - 1, 4, False),
        (0, 4 * PAGE, 4, True),
        (SIZE - 1, SIZE, 4, True),  # a full file is always worth it
        (SIZE, SIZE, 4, False),
        (SIZE, SIZE, 0, False),
    ],
)
def test_the_page_rule(done: int, reached: int, least_pages: int, due: bool) -> None:
    assert new_file(MemoryFiles()).is_due(done, reached, least_pages) is due


def test_buffered_bytes_are_readable_only_when_committed() -> None:
    mapped = new_file(MemoryFiles())
    mapped.lend_buffer(memoryview(bytearray(b"\xee" * SIZE)))
    mapped.append(b"hello")
    assert mapped.read(0, 5) is None
    assert (mapped.wrote, mapped.committed) == (5, 0)
    assert not mapped.commit(least_pages=1)
    assert mapped.commit()
    assert bytes(mapped.read(0, 5) or b"") == b"hello"
    assert not any(mapped.view[5:])


def test_a_used_buffer_leaves_nothing_of_its_older_file_behind_the_blank() -> None:
    mapped = new_file(MemoryFiles())
    mapped.lend_buffer(memoryview(bytearray(b"\xee" * SIZE)))
    mapped.append(b"abc")
    mapped.close_with(b"blank")
    assert mapped.take_buffer() is None
    assert mapped.commit()
    assert bytes(mapped.view[:8]) == b"abcblank"
    assert not any(mapped.view[8:])
    assert mapped.take_buffer() is not None
    assert mapped.take_buffer() is None


def test_a_commit_that_failed_can_be_tried_again() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    mapped.lend_buffer(memoryview(bytearray(SIZE)))
    mapped.append(b"hello")
    files.plan.add(Fault("pwrite", error=errno.ENOSPC, keep_bytes=2, times=1))
    with pytest.raises(OSError, match="No space"):
        mapped.commit()
    assert mapped.committed == 0
    assert mapped.commit()
    assert bytes(mapped.read(0, 5) or b"") == b"hello"


def test_cutting_makes_the_rest_zero() -> None:
    mapped = new_file(MemoryFiles())
    mapped.append(b"abcdef")
    mapped.flushed = 6
    mapped.cut(2)
    assert (mapped.wrote, mapped.committed, mapped.flushed) == (2, 2, 2)
    assert bytes(mapped.view[:6]) == b"ab\0\0\0\0"


def test_a_reader_keeps_its_bytes_when_the_file_is_removed(tmp_path: Path) -> None:
    files = PosixFiles()
    mapped = new_file(files, tmp_path)
    mapped.append(b"still here")
    held = mapped.read(0, 10)
    mapped.remove()
    assert not files.exists(mapped.path)
    assert held is not None
    assert bytes(held) == b"still here"


def test_a_torn_write_is_erased_on_a_real_disk_while_a_view_is_held(tmp_path: Path) -> None:
    files = FaultyFiles(PosixFiles())
    mapped = new_file(files, tmp_path)
    mapped.append(b"good")
    held = mapped.read(0, 4)
    files.plan.add(Fault("pwrite", keep_bytes=50, times=1))
    with pytest.raises(OSError, match="Input/output"):
        mapped.append(b"x" * 100)
    mapped.append(b"more")
    assert held is not None
    assert bytes(held) == b"good"
    assert bytes(mapped.view[:9]) == b"goodmore\0"


def test_zeros_go_ahead_of_what_is_appended_a_step_at_a_time() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    writes = []
    for _ in range(5):
        mapped.append(b"x" * PAGE)
        files.plan.calls.clear()
        mapped.zero_ahead(4 * PAGE)
        mapped.zero_ahead(4 * PAGE)
        writes.append(len(files.plan.calls))
    assert writes == [1, 0, 0, 1, 0]
    assert bytes(mapped.view) == b"x" * 5 * PAGE + bytes(SIZE - 5 * PAGE)


def test_zeros_go_no_further_than_the_file() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    mapped.append(b"x" * (mapped.size - 10))
    mapped.zero_ahead(PAGE)
    mapped.zero_ahead(PAGE)
    assert [call for call, _ in files.plan.calls].count("pwrite") == 2
    assert mapped.file.size == mapped.size


def test_after_a_torn_write_zeros_are_written_anew() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    mapped.zero_ahead(64)
    files.plan.add(Fault("pwrite", keep_bytes=5, times=1))
    with pytest.raises(OSError, match="Input/output"):
        mapped.append(b"x" * 10)
    files.plan.calls.clear()
    mapped.zero_ahead(64)
    assert [call for call, _ in files.plan.calls] == ["pwrite"]


def test_a_write_buffer_needs_no_zeros_in_the_file() -> None:
    files = FaultyFiles(MemoryFiles())
    mapped = new_file(files)
    mapped.lend_buffer(memoryview(bytearray(mapped.size)))
    mapped.zero_ahead(64)
    assert "pwrite" not in [call for call, _ in files.plan.calls]
