"""Damaged stores: what lies before the damage is read, damage and the end of the log differ."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import StoreError
from rocketlake.codec.record_layout import MAGIC_BLANK

Row = dict[str, Any]


def fill(store: Any, count: int, size: int = 60) -> list[int]:
    return [store.put("T", number % 2, b"%d" % number * size, KEYS=f"k{number}") for number in range(count)]


def overwrite(root: Path, place: int, data: bytes) -> None:
    start = place // 16384 * 16384
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(place - start)
        file.write(data)


def stretches(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row["frameStatus"], row["commitLogOffset"]) for row in rows if row["topic"] is None]


def test_blanks_show_only_when_asked_for(store: Any, scan: Callable[..., Any]) -> None:
    fill(store, 300)
    assert {row["frameStatus"] for row in scan(store.root).rows} == {"ok"}
    blanks = [row for row in scan(store.root, frames="all").rows if row["frameStatus"] == "blank"]
    assert len(blanks) == len(list((store.root / "commitlog").iterdir())) - 2  # the last is in use, one is made ahead
    for row in blanks:
        assert (row["commitLogOffset"] + row["recordSize"]) % 16384 == 0
        assert row["body"] is None and row["crcOk"] is None


def test_a_torn_tail_ends_the_log_and_shows_when_asked_for(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 20)
    end = store.end
    store.stop()
    overwrite(store.root, end, b"\0\0\0\x70\xda\xa3\x20\xa7 half a record")
    assert scan(store.root).places == places
    assert stretches(scan(store.root, frames="all").rows) == [("torn", end)]
    with pytest.raises(StoreError, match="torn"):
        scan(store.root, failOnCorrupt="true")


def test_a_record_whose_body_did_not_arrive_ends_the_log_behind_what_is_queued(
    store: Any, scan: Callable[..., Any]
) -> None:
    fill(store, 10)
    store.flush_queues()
    last = fill(store, 1)[0]
    overwrite(store.root, last + 90, b"\xff")
    assert last not in scan(store.root).places
    assert stretches(scan(store.root, frames="all").rows) == [("torn", last)]


def test_a_body_without_its_checksum_inside_the_log_is_a_row_that_says_so(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 20)
    store.stop()
    overwrite(store.root, places[7] + 90, b"\xff")
    found = scan(store.root)
    assert found.places == places
    assert [row["commitLogOffset"] for row in found.rows if not row["crcOk"]] == [places[7]]
    with pytest.raises(StoreError, match="checksum"):
        scan(store.root, failOnCorrupt="true")


def test_behind_a_damaged_record_those_that_queues_name_go_on(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 30)
    store.stop()
    overwrite(store.root, places[7], b"\x7f\xff\xff\xff")
    found = scan(store.root)
    assert found.places == places[:7] + places[8:]
    status = {row["commitLogOffset"]: row["frameStatus"] for row in found.rows}
    assert [status[place] for place in found.places] == ["ok"] * 7 + ["recovered"] * 22
    everything = scan(store.root, frames="all")
    assert stretches(everything.rows) == [("damaged", places[7])]
    with pytest.raises(StoreError, match="damaged"):
        scan(store.root, failOnCorrupt="true")


def test_what_was_left_from_an_earlier_use_of_the_file_is_no_message(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 30)
    store.stop()
    for queue in (0, 1):  # the queues know the first ten only, as after a recovery that cut the log
        file = store.root / "consumequeue" / "T" / str(queue) / f"{0:020d}"
        file.write_bytes(file.read_bytes()[: 5 * 20].ljust(2000, b"\0"))
    overwrite(store.root, places[10], b"\0\0\0\x70\xda\xa3")
    assert scan(store.root).places == places[:10]
    left = [row for row in scan(store.root, frames="all").rows if row["frameStatus"] == "unconfirmed"]
    assert [row["commitLogOffset"] for row in left] == places[11:]


@pytest.mark.parametrize("split", ["65536", "128m"])
def test_a_file_that_is_missing_or_cut_short_costs_its_own_messages_only(
    store: Any, scan: Callable[..., Any], split: str
) -> None:
    places = fill(store, 800)
    store.stop()
    log = sorted((store.root / "commitlog").iterdir())
    assert len(log) > 5
    log[1].unlink()
    cut = log[3].read_bytes()[:5000]
    log[3].write_bytes(cut)
    first, third = int(log[1].name), int(log[3].name)
    left = [row["commitLogOffset"] for row in scan(store.root, splitBytes=split).rows]
    gone = set(places) - set(left)
    assert left == sorted(left)
    assert gone and all(first <= p < first + 16384 or third + 4000 < p < third + 16384 for p in gone)
    assert len([p for p in places if first <= p < first + 16384]) < len(gone)
    found = stretches(scan(store.root, splitBytes=split, frames="all").rows)
    assert {status for status, _place in found} == {"blank", "damaged"}
    assert first in [place for status, place in found if status == "damaged"]


def test_a_topic_that_leads_out_of_the_store_is_not_followed(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 12)
    store.stop()
    overwrite(store.root, places[3], b"\x7f")
    data = (store.root / "commitlog" / f"{0:020d}").read_bytes()
    at = data.index(b"\x01T", places[5] + 80) + 1
    overwrite(store.root, at, b"/")
    assert places[5] not in scan(store.root).places


@pytest.mark.parametrize("seed", range(40))
def test_whatever_was_damaged_the_rows_before_it_are_the_same(store: Any, scan: Callable[..., Any], seed: int) -> None:
    rng = random.Random(seed)
    fill(store, 200, size=rng.randrange(1, 80))
    store.stop()
    columns = "topic,queueId,queueOffset,commitLogOffset,msgId,keys,properties,body,recordSize,crcOk,frameStatus"
    before = {row["commitLogOffset"]: row for row in scan(store.root, columns=columns).rows}
    log = sorted((store.root / "commitlog").iterdir())
    victim = rng.choice(log)
    data = bytearray(victim.read_bytes())
    first = rng.randrange(len(data))
    if rng.random() < 0.3:
        data = data[:first]
    else:
        for at in [first, *(rng.randrange(first, len(data)) for _ in range(rng.randrange(4)))]:
            data[at] ^= 1 << rng.randrange(8)
    victim.write_bytes(data)
    damage = int(victim.name) + first
    for options in ({}, {"frames": "all"}, {"splitBytes": "65536"}, {"topics": "T"}):
        rows = {
            row["commitLogOffset"]: row
            for row in scan(store.root, columns=columns, **options).rows
            if row["topic"] is not None
        }
        for place, row in before.items():
            if place + row["recordSize"] <= damage:
                assert rows[place] == row
        for place, row in rows.items():
            if row["frameStatus"] in ("ok", "recovered") and row["crcOk"]:
                assert place in before
    try:
        scan(store.root, columns=columns, failOnCorrupt="true")
    except StoreError as error:
        assert error.path


def test_damaged_queues_and_index_do_not_lose_what_the_log_has_without_them(
    store: Any, scan: Callable[..., Any]
) -> None:
    rng = random.Random(4)
    places = fill(store, 100)
    store.stop()
    for path in [*(store.root / "consumequeue").rglob("0*"), *(store.root / "index").iterdir()]:
        if path.is_file():
            data = bytearray(path.read_bytes())
            for _ in range(50):
                data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data)
    assert scan(store.root, useIndexes="false").places == places
    from rocketlake.spark.pushdown import Comparison

    for filters in ((), (Comparison("keys", "=", ("k5",)),), (Comparison("topic", "=", ("T",)),)):
        assert set(scan(store.root, *filters).places) <= set(places)


def test_a_record_that_became_a_blank_hides_nothing_behind_it(store: Any, scan: Callable[..., Any]) -> None:
    places = fill(store, 40)
    store.stop()
    overwrite(store.root, places[20] + 4, MAGIC_BLANK.to_bytes(4, "big", signed=True))
    assert scan(store.root).places == places[:20] + places[21:]
    assert stretches(scan(store.root, frames="all").rows) == [("damaged", places[20])]
