from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import File

PAGE = mmap.PAGESIZE
SIZE = 64 * PAGE


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    """A synced file of which the kernel has nothing in memory any more."""
    path = tmp_path / "file"
    file = PosixFiles().open(path, size=SIZE, create=True)
    file.pwrite(bytes(range(256)) * (SIZE // 256), 0)
    file.sync()
    forget(file)
    yield file
    file.close()


def forget(file: File) -> None:
    """Have the kernel drop each page of the file; on a file system without a disk the test is skipped."""
    descriptor = os.open(file.path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if any(file.is_resident(1, page * PAGE) for page in range(SIZE // PAGE)):
        pytest.skip("this file system keeps its files in memory")


def test_what_is_on_disk_only_is_not_read_now(file: File) -> None:
    # The kernel starts to fetch the page when it is asked. While other processes have the CPU the page may arrive
    # within the call: once ten times in a row on a loaded machine. A call that waits for the disk has it always.
    answers = []
    while len(answers) < 1000 and None not in answers:
        forget(file)
        answers.append(file.pread_now(PAGE, 0))
    assert None in answers
    assert file.pread(PAGE, 0)[:3] == b"\0\1\2"
    assert file.pread_now(PAGE, 0) == file.pread(PAGE, 0)


def test_behind_the_end_there_is_nothing_to_read_now(file: File) -> None:
    file.pread(SIZE, 0)
    assert file.pread_now(PAGE, SIZE - PAGE) is not None
    assert file.pread_now(PAGE, SIZE - PAGE + 1) is None


def test_a_mapping_knows_which_of_its_pages_are_in_memory(file: File) -> None:
    assert not file.is_resident(1, 0)
    assert not file.is_resident(SIZE, 0)
    file.pread(SIZE, 0)
    assert file.is_resident(SIZE, 0)
    assert file.is_resident(2, PAGE - 1)


def test_one_page_on_disk_is_enough_for_a_no(file: File) -> None:
    file.pwrite(b"new", 3 * PAGE)
    assert file.is_resident(PAGE, 3 * PAGE)
    assert file.is_resident(1, 4 * PAGE - 1)
    assert not file.is_resident(2, 4 * PAGE - 1)
    assert not file.is_resident(PAGE + 1, 3 * PAGE)
    assert not file.is_resident(2, 3 * PAGE - 1)


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    file = PosixFiles().open(tmp_path / "file", size=SIZE, create=True)
    file.pwrite(b"x" * SIZE, 0)
    view = file.view()
    assert file.is_resident(SIZE, 0)
    assert file.pread_now(SIZE, 0) == view
    file.close()
