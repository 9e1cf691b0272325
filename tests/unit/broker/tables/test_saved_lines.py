"""A change of a big table costs one line of its file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.base.java.json_text import parse
from rocketlake.base.worker import HandWorker, InlineWorker
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig

PATH = Path("/store/config/topics.json")


def topic_table(count: int = 0, **limits: int) -> TopicTable:
    table = TopicTable(PATH, MemoryFiles(), ManualClock(), **limits)
    for number in range(count):
        table.put(TopicConfig(f"T{number}"))
    return table


def calls_of(action: Callable[[], object]) -> int:
    """Python functions called, generators resumed."""
    count = 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", ["topics", "groups", "offsets"])
def test_one_more_among_ten_thousand_costs_what_it_costs_among_ten(kind: str) -> None:
    costs = []
    for size in (10, 10_000):
        files, clock = MemoryFiles(), ManualClock()
        topics, groups, offsets = (
            TopicTable(PATH, files, clock),
            GroupTable(PATH, files, clock),
            OffsetTable(PATH, files, clock),
        )
        table, put = {
            "topics": (topics, lambda number, topics=topics: topics.put(TopicConfig(f"T{number}"))),
            "groups": (groups, lambda number, groups=groups: groups.put(GroupConfig(f"G{number}"))),
            "offsets": (offsets, lambda number, offsets=offsets: offsets.commit(f"G{number}", "T", 0, number)),
        }[kind]
        for number in range(size):
            put(number)
        table.to_text()
        costs.append(calls_of(lambda put=put, size=size, table=table: (put(size), table.to_text())))  # type: ignore[misc]
    assert costs[1] < costs[0] + 2000, costs


def test_the_file_of_topics_is_the_pretty_form_of_the_table() -> None:
    table = topic_table(300)
    for number in range(0, 300, 2):
        table.delete(f"T{number}")
    table.put(TopicConfig("T1", read_queues=3))
    text = table.to_text()
    assert text == to_pretty_text(parse(text))
    assert list(parse(text)["topicConfigTable"]) == [f"T{number}" for number in range(1, 300, 2)]
    assert parse(text)["topicConfigTable"]["T1"]["readQueueNums"] == 3
    for number in range(1, 300, 2):
        table.delete(f"T{number}")
    assert parse(table.to_text())["topicConfigTable"] == {}


def test_topics_and_queues_have_a_limit_that_says_its_setting() -> None:
    table = topic_table(3, topics_max=4, queues_max=100)
    table.check_room(TopicConfig("T0", read_queues=16), TopicConfig("more", read_queues=16, write_queues=16))
    with pytest.raises(UsageError, match=r"holds 3 topics, topicsMax=4 allows no more.*raise topicsMax"):
        table.check_room(TopicConfig("a"), TopicConfig("b"))
    with pytest.raises(UsageError, match=r"have 48 queues, queuesMax=100 allows no more"):
        table.check_room(TopicConfig("a", read_queues=53))
    table.delete("T0")
    table.check_room(TopicConfig("a", read_queues=53))


def test_groups_have_a_limit_that_says_its_setting() -> None:
    table = GroupTable(PATH, MemoryFiles(), ManualClock(), groups_max=10)
    assert table.find_or_create("one") and table.find_or_create("two")
    with pytest.raises(UsageError, match=r"holds 10 consumer groups, groupsMax=10 allows no more"):
        table.find_or_create("three")
    assert table.find_or_create("one")


class TickingClock(ManualClock):
    """Each look at it takes two milliseconds, so that each turn ends after one part."""

    def monotonic(self) -> float:
        self.ticks = getattr(self, "ticks", 0) + 1
        return super().monotonic() + self.ticks * 0.002


async def test_the_text_of_a_big_table_is_made_in_turns_and_a_stop_between_them_saves_all() -> None:
    files, clock = MemoryFiles(), TickingClock()
    table = TopicTable(PATH, files, clock)
    for number in range(1000):
        table.put(TopicConfig(f"T{number}"))
    worker = HandWorker()
    saver = TableSaver(files, clock, worker)
    saver.add(table)
    await saver.start()
    told: list[bool] = []
    saver.when_saved(told.append)
    assert not worker.pending, "the text is still being made"
    table.put(TopicConfig("late"))
    await saver.stop()
    again = TopicTable(PATH, files, clock)
    again.load()
    assert len(again) == 1001
    assert told == [False]


async def test_what_changes_while_the_text_is_made_is_saved_by_the_next_round() -> None:
    files, clock = MemoryFiles(), TickingClock()
    table = TopicTable(PATH, files, clock)
    for number in range(1000):
        table.put(TopicConfig(f"T{number}"))
    saver = TableSaver(files, clock, InlineWorker())
    saver.add(table)
    await saver.start()
    told: list[tuple[str, int]] = []

    def saved() -> int:
        again = TopicTable(PATH, files, clock)
        again.load()
        return len(again)

    saver.when_saved(lambda _: told.append(("first", saved())))
    table.delete("T0")
    table.delete("T999")
    saver.when_saved(lambda _: told.append(("second", saved())))
    await clock.settle()
    assert [name for name, _ in told] == ["first", "second"]
    assert told[1][1] == 998
    await saver.stop()


def test_both_positions_of_the_transactions_are_of_one_moment() -> None:
    """Else a crash would find ended half messages open: the op messages that end them would count as read."""
    group, half, op = "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    table = OffsetTable(Path("/o.json"), MemoryFiles(), ManualClock())
    table.commit(group, half, 0, 1)
    for number in range(300):
        table.commit(f"g{number}", "T", 0, 5)
    table.commit(group, op, 0, 1)
    parts = []
    for part in table.text_parts():
        parts.append(part)
        for topic in (half, op):
            table.commit(group, topic, 0, 1 + len(parts))
    kept = [re.search(rf'"{topic}@{group}":{{0:(\d+)', "".join(parts)) for topic in (half, op)]
    assert all(kept)
    assert len({found[1] for found in kept if found}) == 1
