"""The file of a member's lives: one word for each start, those that a controller may know, the newest epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.membership.lives import Lives

PATH = Path("/s/memberLives")


def started(files: MemoryFiles) -> Lives:
    lives = Lives(PATH, files)
    lives.load()
    return lives


def test_each_start_has_a_word_and_knows_those_since_the_last_answer() -> None:
    files = MemoryFiles()
    first = started(files)
    first.told()
    second, third = started(files), started(files)
    assert (first.before, second.before, third.before) == ([], [first.life], [first.life, second.life])
    assert len({first.life, second.life, third.life}) == 3
    third.told()
    assert started(files).before == [third.life]


def test_a_second_load_begins_no_other_life() -> None:
    lives = started(MemoryFiles())
    life = lives.life
    lives.load()
    assert lives.life == life


def test_many_starts_without_an_answer_keep_a_few_words_and_the_one_that_was_answered() -> None:
    files = MemoryFiles()
    answered = started(files)
    answered.told()
    lives = [started(files) for _ in range(50)]
    assert lives[-1].before == [answered.life, *(each.life for each in lives[-7:-1])]


def test_the_newest_epoch_and_its_master_are_remembered() -> None:
    files = MemoryFiles()
    lives = started(files)
    assert (lives.epoch, lives.master) == (-1, None)
    for epoch, master in ((3, 2), (2, 1), (4, None), (4, 3), (4, 1)):
        lives.note(epoch, master)
    again = started(files)
    assert (again.epoch, again.master, again.before) == (4, 3, [lives.life])
    assert again.masters_before == lives.masters_before == [(3, 2)]
    for epoch in range(5, 50):
        again.note(epoch, 1)
    assert (len(started(files).masters_before), again.masters_before[0]) == (31, (48, 1))


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"abc", b"x y z:a b", b"7", b"7 ,3 x,9,,1 2 3:a"])
def test_a_file_that_cannot_be_read_is_none(text: bytes) -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, text)
    assert started(files).master is None
