"""The key index finds what a look at every record finds."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.key_index.layout import key_hash

FOLDER = Path("/store/index")
START_MS = 1_700_000_000_000
FOREVER = 2**62

# Few words, some with the same hash ("Aa" and "BB"), so that chains get long and collide.
KEYS = st.lists(st.sampled_from(["T#Aa", "T#BB", "T#c", "T#d", "U#Aa"]), max_size=4)
STEPS = st.lists(
    st.tuples(KEYS, st.integers(0, 5000), st.sampled_from(["", "", "", "again", "restart", "flush"])), max_size=60
)


class Model:
    """Every record with its keys and time; the index by looking at all of them."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, list[str]]] = []

    def find(self, key: str) -> list[int]:
        wanted = key_hash(key)
        return [
            physical
            for physical, _ms, keys in reversed(self.records)
            if any(key_hash(known) == wanted for known in keys)
        ]


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, slots=st.integers(1, 7), entries=st.integers(3, 12), start=st.sampled_from([0, 1000]))
def test_the_index_equals_a_look_at_every_record(
    steps: list[tuple[list[str], int, str]], slots: int, entries: int, start: int
) -> None:
    disk = MemoryFiles()

    def opened() -> KeyIndex:
        index = KeyIndex(FOLDER, disk, ManualClock(START_MS), slots=slots, entries_max=entries)
        index.load(last_exit_ok=True, index_ms=0)
        return index

    index, model = opened(), Model()
    physical, now_ms = start, START_MS
    for keys, later_ms, event in steps:
        now_ms += later_ms
        index.put(keys, physical, now_ms)
        model.records.append((physical, now_ms, keys))
        if event == "again":
            for known, ms, known_keys in model.records:
                index.put(known_keys, known, ms)
        elif event == "flush":
            index.flush()
        elif event == "restart":
            index.close()
            index = opened()
        physical += 100
    for key in ("T#Aa", "T#BB", "T#c", "T#d", "U#Aa", "none"):
        assert index.find(key, 1000, 0, FOREVER) == model.find(key)
        assert index.find(key, 2, 0, FOREVER) == model.find(key)[:2]


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, begin=st.integers(0, 60_000), length=st.integers(0, 60_000), entries=st.integers(3, 12))
def test_a_time_range_loses_nothing_but_the_second_it_counts_in(
    steps: list[tuple[list[str], int, str]], begin: int, length: int, entries: int
) -> None:
    """Entries hold whole seconds from the start of their file (the first of a file: from the end of the file before),
    so hits may lie a little outside; a record well inside the range is always found."""
    index = KeyIndex(FOLDER, MemoryFiles(), ManualClock(START_MS), slots=5, entries_max=entries)
    model = Model()
    now_ms = START_MS
    for number, (keys, later_ms, _event) in enumerate(steps):
        now_ms += min(later_ms, 900)
        index.put(keys, number * 100, now_ms)
        model.records.append((number * 100, now_ms, keys))
    low, high = START_MS + begin, START_MS + begin + length
    for key in ("T#Aa", "T#c"):
        found = index.find(key, 1000, low, high)
        times = {physical: ms for physical, ms, _keys in model.records}
        assert set(found) <= set(model.find(key))
        assert all(low - 2000 <= times[physical] <= high + 2000 for physical in found)
        assert {physical for physical in model.find(key) if low + 2000 <= times[physical] <= high - 2000} <= set(found)
