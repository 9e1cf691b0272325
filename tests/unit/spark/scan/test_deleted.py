"""Topics that were deleted: their records stay in the log, and no table shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.spark.pushdown import Comparison
from rocketlake.store.deletions import DamagedNotes


def fill(store: Any, topic: str, count: int) -> list[int]:
    return [store.put(topic, number % 2, b"%d" % number, KEYS=f"k{number}") for number in range(count)]


@pytest.fixture
def places(store: Any) -> dict[str, list[int]]:
    """`old`: dead ones of T; `new`: T made again, fewer; `other`: another topic's, before and after."""
    found = {"other": fill(store, "U", 4), "old": fill(store, "T", 30)}
    store.flush_queues()
    store.delete("T")
    found["new"] = fill(store, "T", 10)
    found["other"] += fill(store, "U", 4)
    store.stop()
    return found


WAYS = {
    "log": (),
    "queues": (Comparison("topic", "=", ("T",)),),
    "keys": (Comparison("keys", "in", ("k3", "k4", "k20")),),
    "places": (Comparison("commitLogOffset", ">=", (0,)),),
}


@pytest.mark.parametrize("way", WAYS)
def test_dead_records_come_back_by_no_way(
    store: Any, scan: Callable[..., Any], places: dict[str, list[int]], way: str
) -> None:
    alive = {*places["new"], *places["other"]}
    found = scan(store.root, *WAYS[way])
    assert found.rows and {*found.places} <= alive
    if way in ("log", "places"):
        assert {*found.places} == alive
    if way == "queues":
        assert found.places == places["new"]


def test_all_frames_shows_them_as_deleted(store: Any, scan: Callable[..., Any], places: dict[str, list[int]]) -> None:
    rows = [row for row in scan(store.root, frames="all").rows if row["topic"] is not None]
    deleted = [row["commitLogOffset"] for row in rows if row["frameStatus"] == "deleted"]
    assert deleted == places["old"]
    assert {row["frameStatus"] for row in rows if row["commitLogOffset"] not in deleted} == {"ok"}


def test_damaged_notes_are_passed_over_unless_the_read_fails_on_damage(
    store: Any, scan: Callable[..., Any], places: dict[str, list[int]]
) -> None:
    note = next(store.root.rglob("deletedTopics.json"))
    note.write_bytes(note.read_bytes().replace(b"checksum", b"checksun"))
    assert {*places["old"]} <= {*scan(store.root).places}
    with pytest.raises(DamagedNotes):
        scan(store.root, failOnCorrupt="true")
