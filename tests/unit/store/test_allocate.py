from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker
from rocketlake.store.allocate import Allocate, make_file

FIRST = Path("/log/first")


def opened(files: FaultyFiles) -> list[Path]:
    return [path for call, path in files.plan.calls if call == "open"]


def test_a_file_prepared_in_time_is_not_made_at_the_roll() -> None:
    files, worker = FaultyFiles(MemoryFiles()), HandWorker()
    allocate = Allocate(files, 100, worker)
    allocate.prepare(FIRST)
    worker.run_all()
    assert opened(files) == [FIRST]
    assert allocate.open_file(FIRST).size == 100
    assert opened(files) == [FIRST]


def test_a_file_needed_before_the_worker_came_to_it_is_made_now_and_only_once() -> None:
    files, worker = FaultyFiles(MemoryFiles()), HandWorker()
    allocate = Allocate(files, 100, worker)
    allocate.prepare(FIRST)
    file = allocate.open_file(FIRST)
    file.pwrite(b"used", 0)
    worker.run_all()
    assert opened(files) == [FIRST]
    assert file.pread(4, 0) == b"used"


def test_asking_twice_makes_one_file() -> None:
    worker = HandWorker()
    allocate = Allocate(MemoryFiles(), 100, worker)
    allocate.prepare(FIRST)
    allocate.prepare(FIRST)
    assert len(worker.pending) == 1


def test_a_preparation_that_failed_is_made_good_by_the_append(caplog: pytest.LogCaptureFixture) -> None:
    files, worker = FaultyFiles(MemoryFiles()), HandWorker()
    files.plan.add(Fault("open", times=1, error=errno.ENOSPC))
    allocate = Allocate(files, 100, worker)
    allocate.prepare(FIRST)
    worker.run_all()
    assert "could not be made ahead" in caplog.text
    assert allocate.open_file(FIRST).size == 100


def test_an_append_that_cannot_make_the_file_may_try_again() -> None:
    files = FaultyFiles(MemoryFiles())
    files.plan.add(Fault("open", times=1))
    allocate = Allocate(files, 100, HandWorker())
    with pytest.raises(OSError, match="Input/output"):
        allocate.open_file(FIRST)
    assert allocate.open_file(FIRST).size == 100


@pytest.mark.parametrize("made", [True, False])
def test_an_unused_file_is_removed_at_the_end(made: bool) -> None:
    files, worker = MemoryFiles(), HandWorker()
    allocate = Allocate(files, 100, worker)
    allocate.prepare(FIRST)
    if made:
        worker.run_all()
    allocate.remove_unused()
    worker.run_all()
    assert files.list_dir(FIRST.parent) == []


def test_a_new_file_survives_a_power_cut_with_its_length() -> None:
    files = MemoryFiles()
    make_file(files, FIRST, 100)
    assert files.power_cut().size(FIRST) == 100
