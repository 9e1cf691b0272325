from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.broker.tables.saved_table import SavedTable

PATH = Path("/store/config/words.json")


class Words(SavedTable):
    holds = "the table of words"
    without_file = "to start with no words"

    def __init__(self, files: Files, version_step: int = 1) -> None:
        super().__init__(PATH, files, ManualClock(1000), version_step=version_step)
        self.words: list[str] = []

    def add(self, word: str) -> None:
        self.words.append(word)
        self._note_change()

    def to_text(self) -> str:
        return to_pretty_text({"dataVersion": self._version_on_wire(), "words": self.words})

    def _take(self, wire: dict[str, Any]) -> None:
        self.words = list(wire["words"])


def test_what_was_saved_is_loaded_with_its_version() -> None:
    files = MemoryFiles()
    words = Words(files)
    words.add("a")
    words.save()
    assert not words.changed
    again = Words(files)
    again.load()
    assert (again.words, again.data_version, again.changed) == (["a"], words.data_version, False)


def test_without_a_file_the_table_stays_as_it_was_made() -> None:
    words = Words(MemoryFiles())
    words.load()
    assert (words.words, words.data_version.counter) == ([], 0)


def test_a_file_of_another_shape_is_named_with_what_to_do() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, b'{"letters": []}')
    with pytest.raises(StoreError, match=r"table of words cannot be read.*words\.json\.bak.*no words"):
        Words(files).load()


def test_the_version_rises_once_per_step_of_changes() -> None:
    words = Words(MemoryFiles(), version_step=3)
    for word in "abcdefg":
        words.add(word)
    assert words.data_version.counter == 2


def test_a_save_that_the_disk_refused_is_still_to_be_made() -> None:
    words = Words(FaultyFiles(MemoryFiles(), FaultPlan([Fault("write_bytes", times=1)])))
    words.add("a")
    with pytest.raises(OSError):
        words.save()
    assert words.changed
