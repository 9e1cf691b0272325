"""A slave takes over a large table of its master in short steps; the result is that of one step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.replicas.copied import CopiedTable
from rocketlake.broker.tables.entry_table import EntryTable, cut_entries
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.request_code import RequestCode

COUNT = 100
CLASSES = (TopicTable, GroupTable, OffsetTable)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketlake.broker.replicas.copied._IN_STEPS_BYTES", 1000)


def table_of(kind: type[EntryTable]) -> EntryTable:
    return kind(Path("/t.json"), MemoryFiles(), ManualClock())


def fill(table: EntryTable, numbers: range, value: int) -> None:
    for number in numbers:
        if isinstance(table, TopicTable):
            table.put(TopicConfig(f"topic-{number}", read_queues=value))
        elif isinstance(table, GroupTable):
            table.put(GroupConfig(f"group-{number}", retry_queues=value))
        elif isinstance(table, OffsetTable):
            table.commit(f"group-{number}", "T", 0, value)
            table.commit(f"group-{number}", "T", 3, value)


def masters_text(kind: type[EntryTable], value_of_one: int = 7) -> bytes:
    """Of many entries, one of which has this value."""
    master = table_of(kind)
    fill(master, range(COUNT), 7)
    fill(master, range(5, 6), value_of_one)
    return master.to_text().encode()


def copied(table: EntryTable) -> CopiedTable:
    return CopiedTable("x", RequestCode.GET_ALL_TOPIC_CONFIG, table, table.entries_in, may_be_empty=True)


def lines(table: EntryTable) -> list[str]:
    """Of its text, whatever the order of its entries."""
    return sorted(line.rstrip(",") for line in table.to_text().splitlines())


@pytest.mark.parametrize("kind", CLASSES)
def test_entries_come_go_and_change_one_by_one(kind: type[EntryTable]) -> None:
    slave, other = table_of(kind), table_of(kind)
    fill(slave, range(50, 150), 2)  # it has some that the master lacks, and some that are other ones
    copy = copied(slave)
    for value in (7, 8):
        text = masters_text(kind, value)
        assert len(list(copy.take(text))) > COUNT
        other.replace(text)
        assert lines(slave) == lines(other)
        assert slave.changed
        assert list(copy.take(text)) == [], "the same answer costs nothing"


@pytest.mark.parametrize("kind", CLASSES)
def test_what_has_not_changed_since_the_last_answer_is_not_read_again(
    kind: type[EntryTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = table_of(kind)
    copy = copied(slave)
    list(copy.take(masters_text(kind)))
    read: list[int] = []
    change = slave.change

    def counted(rest: Mapping[str, Any], entries: Mapping[str, Any], names: Collection[str]) -> Iterator[None]:
        read.append(len(entries))
        return change(rest, entries, names)

    monkeypatch.setattr(slave, "change", counted)
    list(copy.take(masters_text(kind, 8)))
    fill(slave, range(1), 9)  # a change of its own: it is not as the last answer any more
    list(copy.take(masters_text(kind, 7)))
    assert read[0] == 1
    assert read[1] >= COUNT


@pytest.mark.parametrize("kind", CLASSES)
def test_an_entry_that_makes_no_sense_leaves_the_table_as_it_was(kind: type[EntryTable]) -> None:
    slave = table_of(kind)
    fill(slave, range(3), 2)
    before = slave.to_text()
    good = masters_text(kind)
    for bad in (good.replace(b":7", b":[7", 1), good.replace(b":7", b':"x"', 1), good[:-40]):
        with pytest.raises(StoreError):
            list(copied(slave).take(bad))
        assert slave.to_text() == before


def test_names_are_read_as_json_and_braces_in_them_cut_nothing() -> None:
    text = b'{\n\t"v":{"a":1},\n\t"t":{\n\t\t"a\\"b":{0:1\n\t\t},\n\t\t"c\\n\\t}":{1:2}\n\t}\n}'
    cut = cut_entries(text, "t")
    assert cut is not None
    assert cut.texts == {'a"b': b"{0:1\n\t\t}", "c\n\t}": b"{1:2}"}
    assert cut.rest == {"v": {"a": 1}, "t": {}}
