from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.saved_json import save_text
from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import parse
from rocketlake.broker.delay.progress import DelayProgress

PATH = Path("/store/config/delayOffset.json")


class Log:
    """How much of the commit log is on disk."""

    def __init__(self) -> None:
        self.flushed = 0


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def make(files: MemoryFiles, log: Log, version_step: int = 200) -> DelayProgress:
    return DelayProgress(PATH, files, ManualClock(), lambda: log.flushed, version_step)


def saved_offsets(progress: DelayProgress) -> dict[int, int]:
    return {int(level): offset for level, offset in parse(progress.to_text())["offsetTable"].items()}


def test_every_level_starts_at_zero(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    assert progress.next_offset(1) == 0
    assert saved_offsets(progress) == {}


def test_a_delivery_is_saved_only_when_its_copy_is_on_disk(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    progress.move(1, 1, log_offset=100)
    progress.move(1, 2, log_offset=200)
    assert progress.next_offset(1) == 2
    assert saved_offsets(progress) == {}
    log.flushed = 150
    assert saved_offsets(progress) == {1: 1}
    log.flushed = 200
    assert saved_offsets(progress) == {1: 2}


def test_a_skipped_message_waits_for_the_copies_before_it(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    progress.move(1, 1, log_offset=100)
    progress.move(1, 2)
    assert saved_offsets(progress) == {}
    log.flushed = 100
    assert saved_offsets(progress) == {1: 2}


def test_levels_do_not_wait_for_each_other(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    progress.move(1, 1, log_offset=900)
    progress.move(2, 5, log_offset=50)
    log.flushed = 50
    assert saved_offsets(progress) == {2: 5}


def test_a_level_that_becomes_safe_later_is_saved_then(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    progress.move(1, 1, log_offset=100)
    progress.to_text()
    progress.changed = False
    log.flushed = 100
    assert progress.changed
    assert saved_offsets(progress) == {1: 1}
    progress.changed = False
    assert not progress.changed


def test_slaves_hear_that_a_delivery_has_become_safe(files: MemoryFiles, log: Log) -> None:
    """They copy what is safe: the copy that they made when it was delivered does not tell it."""
    progress = make(files, log)
    progress.move(1, 1, log_offset=100)
    told = progress.edition
    assert progress.edition == told
    log.flushed = 100
    assert progress.edition != told


def test_deliveries_that_are_not_safe_are_forgotten_when_another_broker_delivers(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    log.flushed = 150
    progress.move(1, 1, log_offset=100)
    progress.move(1, 2, log_offset=200)
    progress.go_back()
    log.flushed = 900  # other messages, of that broker
    assert (progress.next_offset(1), saved_offsets(progress), progress.changed) == (1, {1: 1}, True)


def test_what_was_saved_is_where_the_next_start_goes_on(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log)
    progress.move(3, 7)
    save_text(files, PATH, progress.to_text())
    again = make(files, log)
    again.load()
    assert again.next_offset(3) == 7
    assert saved_offsets(again) == {3: 7}


def test_the_file_of_an_apache_broker_is_read(files: MemoryFiles, log: Log) -> None:
    golden = Path(__file__).parents[4] / "tests/golden/stores/apache-5.3.3-clean/config/delayOffset.json"
    save_text(files, PATH, golden.read_text())
    progress = make(files, log)
    progress.load()
    assert progress.next_offset(1) == 6
    assert progress.to_text() == golden.read_text()


def test_the_data_version_grows_every_few_steps(files: MemoryFiles, log: Log) -> None:
    progress = make(files, log, version_step=3)
    for step in range(7):
        progress.move(1, step)
    assert progress.data_version.counter == 2


@pytest.mark.parametrize("text", ['{"offsetTable":{"x":1}}', '{"offsetTable":[1]}', "[]"])
def test_a_file_that_makes_no_sense_stops_the_start_and_names_itself(files: MemoryFiles, log: Log, text: str) -> None:
    save_text(files, PATH, text)
    with pytest.raises(StoreError, match=r"delayOffset\.json"):
        make(files, log).load()
