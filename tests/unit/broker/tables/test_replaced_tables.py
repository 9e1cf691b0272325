"""A slave's tables take the text of their master's: as a whole, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import parse
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.sequence_mark import SequenceMark
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig

Make = Callable[[str], SavedTable]


def topics(name: str) -> SavedTable:
    table = TopicTable(Path(f"/{name}"), MemoryFiles(), ManualClock(1), [TopicConfig("BUILTIN")])
    table.put(TopicConfig("both", read_queues=len(name)))
    table.put(TopicConfig(name))
    return table


def groups(name: str) -> SavedTable:
    table = GroupTable(Path(f"/{name}"), MemoryFiles(), ManualClock(1))
    table.put(GroupConfig("both", retry_queues=len(name)))
    table.put(GroupConfig(name))
    table.set_read_forbidden(name, "T", forbidden=True)
    return table


def offsets(name: str) -> SavedTable:
    table = OffsetTable(Path(f"/{name}"), MemoryFiles(), ManualClock(1))
    table.commit("both", "T", 0, len(name))
    table.commit(name, "T", 1, 7)
    return table


def delays(name: str) -> SavedTable:
    table = DelayProgress(Path(f"/{name}"), MemoryFiles(), ManualClock(1), lambda: 100)
    table.move(len(name), 5, 100)
    table.move(1, len(name), 100)
    if name == "slave":
        table.move(1, 70, 4000)  # not on disk yet, and of no meaning any more
    return table


def sequences(name: str) -> SavedTable:
    files, ends = MemoryFiles(), LogEnds(100, 100)
    table = ProducerSequences(Path(f"/{name}"), files, ManualClock(1), lambda: ends, producers_max=10, keep_ms=10_000)
    table.opened()
    table.begin()
    table.advance("T", 0, SequenceMark(f"{name}/0", 3, 0, "4"), len(name))
    table.close()
    return table


ALL = pytest.mark.parametrize("make", [topics, groups, offsets, delays, sequences])


def contents(table: SavedTable) -> dict[str, Any]:
    return cast("dict[str, Any]", parse(table.to_text()))


@ALL
def test_the_masters_text_replaces_all_that_was_there(make: Make) -> None:
    master, slave = make("the master"), make("slave")
    assert contents(slave) != contents(master)
    slave.changed = False
    slave.replace(master.to_text())
    assert contents(slave) == contents(master)
    assert slave.data_version == master.data_version
    assert slave.changed, "it is saved under the slave's own name"


@ALL
@pytest.mark.parametrize("text", ["{", '{"dataVersion": 7}'])
def test_a_text_that_makes_no_sense_changes_nothing(make: Make, text: str) -> None:
    slave = make("slave")
    before = contents(slave)
    with pytest.raises(StoreError, match="ask the master"):
        slave.replace(text)
    assert contents(slave) == before


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (topics, "topicConfigTable"),
        (groups, "subscriptionGroupTable"),
        (offsets, "offsetTable"),
        (delays, "offsetTable"),
    ],
)
def test_one_bad_line_behind_good_ones_changes_nothing(make: Make, key: str) -> None:
    slave = make("slave")
    before = contents(slave)
    good = contents(make("the master"))[key]
    with pytest.raises(StoreError):
        slave.replace(json.dumps({key: {**good, "bad": [1]}}))
    assert contents(slave) == before


def test_listeners_hear_of_each_topic_that_changed() -> None:
    slave, heard = topics("slave"), list[str]()
    assert isinstance(slave, TopicTable)
    slave.on_change.append(heard.append)
    slave.replace(topics("the master").to_text())
    assert sorted(heard) == ["both", "slave", "the master"]
