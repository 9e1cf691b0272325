from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.deletions import DamagedNotes, Deletions

PATH = Path("/deletedTopics.json")


def noted(disk: MemoryFiles, **ends: int) -> Deletions:
    notes = Deletions(disk, PATH)
    for topic, end in ends.items():
        notes.note([topic], end)
    notes.write(notes.encode())
    return notes


def test_records_below_the_note_are_dead_and_no_others() -> None:
    notes = noted(MemoryFiles(), A=100, B=300)
    assert notes.until == 300
    assert [notes.is_dead("A", at) for at in (0, 99, 100, 200)] == [True, True, False, False]
    assert [notes.is_dead("B", at) for at in (100, 299, 300)] == [True, True, False]
    assert not notes.is_dead("C", 0)


def test_a_second_deletion_moves_the_note() -> None:
    notes = noted(MemoryFiles(), A=100)
    notes.note(["A"], 500)
    assert notes.is_dead("A", 499)


def test_a_topic_deleted_before_there_was_a_log_needs_no_note() -> None:
    notes = noted(MemoryFiles(), A=0)
    assert dict(notes.topics) == {}
    assert notes.until == 0


def test_a_queue_that_began_anew_has_a_note_of_its_own() -> None:
    disk = MemoryFiles()
    notes = noted(disk, A=100)
    notes.begins_anew("A", 1, 300)
    notes.begins_anew("B", 0, 200)
    notes.write(notes.encode())
    again = Deletions(disk.power_cut(), PATH)
    again.load()
    assert again.until == 300
    assert not again.changed
    assert [again.is_dead("A", at, 1) for at in (99, 299, 300)] == [True, True, False]
    assert [again.is_dead("A", at, 0) for at in (99, 299)] == [True, False]
    assert [again.is_dead("B", 199, queue_id) for queue_id in (0, 1, -1)] == [True, False, False]


def test_notes_of_queues_go_as_those_of_topics_do() -> None:
    notes = Deletions(MemoryFiles(), PATH)
    for queue_id, place in enumerate((100, 200, 300)):
        notes.begins_anew("A", queue_id, place)
    notes.clamp(250)
    notes.forget_below(100)
    assert dict(notes.queues) == {"A": {1: 200, 2: 250}}
    notes.note(["A"], 500)
    assert (dict(notes.queues), notes.is_dead("A", 499, 1)) == ({}, True)


def test_notes_survive_a_power_cut_once_written() -> None:
    disk = MemoryFiles()
    noted(disk, **{"A": 100, "%RETRY%g": 7})
    again = Deletions(disk.power_cut(), PATH)
    again.load()
    assert dict(again.topics) == {"A": 100, "%RETRY%g": 7}
    assert again.until == 100
    assert not again.changed


def test_a_name_that_is_no_utf8_comes_back_as_it_was() -> None:
    disk = MemoryFiles()
    notes = Deletions(disk, PATH)
    notes.note(["\udcff"], 5)
    notes.write(notes.encode())
    assert Deletions.at(disk, PATH).is_dead("\udcff", 4)


def test_a_log_that_lost_its_end_takes_the_notes_along() -> None:
    notes = noted(MemoryFiles(), A=100, B=300)
    notes.clamp(200)
    assert dict(notes.topics) == {"A": 100, "B": 200}
    assert notes.until == 200
    assert notes.changed


def test_notes_below_the_begin_of_the_log_go() -> None:
    notes = noted(MemoryFiles(), A=100, B=300)
    notes.forget_below(100)
    assert dict(notes.topics) == {"B": 300}
    notes.forget_below(300)
    assert notes.until == 0
    assert notes.changed


def test_without_notes_there_is_no_file_and_nothing_to_write() -> None:
    notes = Deletions(MemoryFiles(), PATH)
    notes.load()
    assert notes.until == 0
    assert not notes.changed


def test_every_changed_bit_is_noticed() -> None:
    disk = MemoryFiles()
    written = noted(disk, A=100, B=300).encode()
    for bit in range(8 * len(written)):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.write_bytes(PATH, damaged)
        try:
            found = Deletions.at(disk, PATH)
        except DamagedNotes:
            continue
        assert dict(found.topics) == {"A": 100, "B": 300}, bytes(damaged)  # a space for the line's end


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\0" * 80, b'{"topics":{},"checksum":"0"}'])
def test_what_is_no_file_of_notes_is_kept_aside_and_reported(text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryFiles()
    disk.write_bytes(PATH, text)
    notes = Deletions(disk, PATH)
    with caplog.at_level(logging.ERROR):
        notes.load()
    assert notes.until == 0
    assert "deletedTopics.json.broken" in caplog.text
    assert disk.list_dir(Path("/")) == ["deletedTopics.json.broken"]
    notes.note(["A"], 3)
    notes.write(notes.encode())
    assert json.loads(disk.read_bytes(PATH))["topics"] == {"A": 3}


def test_who_only_looks_changes_nothing() -> None:
    disk = MemoryFiles()
    disk.write_bytes(PATH, b"{}")
    with pytest.raises(DamagedNotes, match="delete these topics again"):
        Deletions.at(disk, PATH)
    assert disk.list_dir(Path("/")) == ["deletedTopics.json"]
