"""Table `messages` gives what the broker itself would read, by whatever way it is found."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.spark.pushdown import Comparison
from rocketlake.spark.scan.parts import LogRange, Places, QueueSlice

GOLDEN = Path(__file__).parents[3] / "golden/stores/apache-5.3.3-clean"
COMPARED = ("topic", "queueId", "queueOffset", "commitLogOffset", "keys", "tags", "body", "recordSize")
Row = dict[str, Any]


def fill(store: Any, rng: random.Random, count: int) -> None:
    for number in range(count):
        properties = {"UNIQ_KEY": f"{number:032X}"} if rng.random() < 0.9 else {}
        if rng.random() < 0.7:
            properties["KEYS"] = rng.choice((f"k{number % 20}", f"k{number} all", "k1 k2"))
        if rng.random() < 0.7:
            properties["TAGS"] = rng.choice("AB")
        body = rng.randbytes(rng.choice((0, 10, 300, 3000)) if rng.random() < 0.2 else 40)
        store.put(rng.choice(("T", "T", "U", "%RETRY%g")), rng.randrange(3), body, **properties)
        store.clock.advance(rng.choice((0, 0, 1, 500, 60_000)))


def same(found: list[Row], wanted: list[Row]) -> None:
    found = sorted(found, key=lambda row: row["commitLogOffset"])
    assert [row["commitLogOffset"] for row in found] == [row["commitLogOffset"] for row in wanted]
    for row, true in zip(found, wanted, strict=True):
        assert {name: row[name] for name in COMPARED} == {name: true[name] for name in COMPARED}
        assert (row["crcOk"], row["frameStatus"]) == (True, "ok")
        assert sorted(dict(row["properties"]).items()) == true["properties"]
        assert round(row["storeTimestamp"].timestamp() * 1000) == true["store_ms"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_stopped", [True, False])
def test_all_rows_are_those_of_the_brokers_own_reader(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]], seed: int, is_stopped: bool
) -> None:
    fill(store, random.Random(seed), 250)
    if is_stopped:
        store.stop()
    same(scan(store.root).rows, truth(store.root))


def test_a_read_leaves_no_file_open_also_when_it_is_not_read_to_its_end(
    store: Any, scan: Callable[..., Any], first_batch: Callable[..., Any]
) -> None:
    fill(store, random.Random(1), 250)
    store.stop()
    scan(store.root, Comparison("keys", "=", ("k1",)))
    for table, filters in (("messages", [Comparison("topic", "=", ("T",))]), ("consumequeue", []), ("index", [])):
        assert first_batch(store.root, *filters, table=table).num_rows
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert [link for link in links if link.startswith(str(store.root))] == []


@pytest.mark.parametrize("split", [65_536, 100_000, 128 << 20])
def test_however_it_is_split_each_row_comes_once(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]], split: int
) -> None:
    rng = random.Random(split)
    fill(store, rng, 2500)
    store.stop()
    whole = scan(store.root, splitBytes=split)
    same(whole.rows, truth(store.root))
    assert len(whole.parts) == (1 if split > 1 << 20 else len(whole.parts))
    assert split > 1 << 20 or len(whole.parts) > 2


def test_without_consume_queues_the_log_is_split_by_walking(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]]
) -> None:
    fill(store, random.Random(1), 1500)
    store.stop()
    wanted = truth(store.root)
    (store.root / "consumequeue").rename(store.root.parent / "gone")
    found = scan(store.root, splitBytes=65536)
    same(found.rows, wanted)
    assert len(found.parts) > 2


def test_a_log_in_another_folder_is_found(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]], tmp_path: Path
) -> None:
    fill(store, random.Random(1), 50)
    store.stop()
    wanted = truth(store.root)
    (store.root / "commitlog").rename(tmp_path / "elsewhere")
    same(scan(store.root, commitLogPath=tmp_path / "elsewhere").rows, wanted)


def test_apaches_store_gives_the_same_rows(scan: Callable[..., Any], truth: Callable[..., list[Row]]) -> None:
    wanted = truth(GOLDEN)
    assert len(wanted) == 716
    same(scan(GOLDEN, maxHashSlotNum=97).rows, wanted)
    same(scan(GOLDEN, topics="Golden").rows, [row for row in wanted if row["topic"] == "Golden"])
    keyed = scan(GOLDEN, Comparison("keys", "=", ("k77",)), maxHashSlotNum=97)
    same(keyed.rows, [row for row in wanted if row["keys"] == "k77"])
    assert keyed.rows
    assert keyed.scanned <= 1.1 * len(keyed.rows) + 3


# -- filters -----------------------------------------------------------------------------------------------------------


def holds(row: Row, filters: tuple[Comparison, ...]) -> bool:
    signs: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    for each in filters:
        value = row["store_ms"] * 1000 if each.column == "storeTimestamp" else row[each.column]
        if value is None or not any(signs["=" if each.sign == "in" else each.sign](value, one) for one in each.values):
            return False
    return True


def random_filters(rng: random.Random, rows: list[Row]) -> tuple[Comparison, ...]:
    found = []
    for _ in range(rng.randrange(1, 4)):
        row = rng.choice(rows)
        column = rng.choice(("topic", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp", "keys", "tags"))
        value = row["store_ms"] * 1000 + rng.choice((0, 0, 1, -1)) if column == "storeTimestamp" else row[column]
        if value is None:
            continue
        sign = rng.choice(("=", "in") if isinstance(value, str) else ("=", "in", "<", "<=", ">", ">="))
        more = [other for other in (rng.choice(rows).get(column),) if other is not None and column != "storeTimestamp"]
        found.append(Comparison(column, sign, (value, *more) if sign == "in" else (value,)))
    return tuple(found)


@pytest.mark.parametrize("seed", range(8))
def test_filtered_rows_are_those_of_the_whole_table(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]], seed: int
) -> None:
    rng = random.Random(seed)
    fill(store, rng, 400)
    if seed % 2:
        store.stop()  # else: queues and index are behind the log
    elif seed % 4:
        store.flush_queues()
    rows = truth(store.root)
    for _ in range(40):
        filters = random_filters(rng, rows)
        same(scan(store.root, *filters, splitBytes=65536).rows, [row for row in rows if holds(row, filters)])


def test_keys_ids_and_queues_are_read_without_looking_at_more(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]]
) -> None:
    for number in range(3000):
        store.put("T", number % 4, b"x" * 50, KEYS=f"k{number % 1000}", UNIQ_KEY=f"{number:032X}")
        store.clock.advance(10_000)
    store.stop()
    rows = truth(store.root)
    key = scan(store.root, Comparison("keys", "in", ("k5", "k700", "none")))
    unique = scan(store.root, Comparison("msgId", "=", (f"{77:032X}",)))
    queue = scan(store.root, Comparison("topic", "=", ("T",)), Comparison("queueId", "=", (2,)))
    some = scan(
        store.root, Comparison("topic", "=", ("T",)), Comparison("queueOffset", ">=", (10,)),
        Comparison("queueOffset", "<", (30,)),
    )  # fmt: skip
    place = scan(store.root, Comparison("commitLogOffset", "=", (rows[900]["commitLogOffset"],)))
    assert [len(each.rows) for each in (key, unique, queue, some, place)] == [6, 1, 750, 80, 1]
    for each in (key, unique, queue, some, place):
        assert each.scanned <= 1.1 * len(each.rows) + 2
    assert {type(part) for part in place.parts} == {Places}
    assert QueueSlice in {type(part) for part in queue.parts}


def test_a_time_range_is_read_with_little_more(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]]
) -> None:
    for number in range(3000):
        store.put("T", number % 4, b"x" * 50)
        store.clock.advance(1000)
    store.stop()
    rows = truth(store.root)
    low, high = rows[1000]["store_ms"], rows[1500]["store_ms"]
    found = scan(store.root, startingTimestamp=low, endingTimestamp=high)
    assert found.places == [row["commitLogOffset"] for row in rows[1000:1500]]
    assert found.scanned <= 1.1 * len(found.rows)
    of_queue = scan(store.root, startingTimestamp=low, endingTimestamp=high, topics="T")
    assert of_queue.places == found.places
    assert of_queue.scanned <= 1.1 * len(of_queue.rows)
    assert not scan(store.root, startingTimestamp=rows[-1]["store_ms"] + 1).rows


def test_an_id_made_of_the_place_finds_its_message(store: Any, scan: Callable[..., Any]) -> None:
    fill(store, random.Random(5), 100)
    store.stop()
    row = scan(store.root).rows[40]
    found = scan(store.root, Comparison("offsetMsgId", "=", (row["offsetMsgId"],)))
    assert (found.rows, found.scanned) == ([row], 1)
    for wrong in ("", "no id", "00" * 16):
        assert not scan(store.root, Comparison("offsetMsgId", "=", (wrong,))).rows
    bare = next(each for each in scan(store.root).rows if "UNIQ_KEY" not in dict(each["properties"]))
    assert scan(store.root, Comparison("msgId", "=", (bare["offsetMsgId"],))).rows == [bare]


def test_options_filter_without_push_down(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]]
) -> None:
    fill(store, random.Random(6), 200)
    store.stop()
    rows = truth(store.root)
    same(scan(store.root, tags="A || C").rows, [row for row in rows if row["tags"] == "A"])
    same(scan(store.root, filter_sql92="TAGS = 'B' AND KEYS IS NULL").rows,
         [row for row in rows if row["tags"] == "B" and row["keys"] is None])  # fmt: skip
    same(scan(store.root, topics="U,none").rows, [row for row in rows if row["topic"] == "U"])
    same(scan(store.root, topics="T", useIndexes="false").rows, [row for row in rows if row["topic"] == "T"])


def test_columns_may_be_chosen(store: Any, scan: Callable[..., Any]) -> None:
    store.put("T", 1, b"body", KEYS="k")
    assert scan(store.root, columns="body,frameStatus,keys").rows == [
        {"body": b"body", "frameStatus": "ok", "keys": "k"}
    ]


def test_messages_that_came_after_the_queues_were_written_are_there(store: Any, scan: Callable[..., Any]) -> None:
    for number in range(20):
        store.put("T", number % 2, b"early", KEYS=f"k{number}")
    store.flush_queues()
    store.clock.advance(100)
    for number in range(20, 30):
        store.put("T", number % 2, b"late", KEYS=f"k{number}")
    store.put("new", 0, b"new", KEYS="k1")
    assert len(scan(store.root, topics="T").rows) == 30
    assert len(scan(store.root, topics="T,new").rows) == 31
    assert [row["body"] for row in scan(store.root, Comparison("keys", "=", ("k25",))).rows] == [b"late"]


def test_a_tag_of_a_topic_is_found_by_its_queue_entries(store: Any, scan: Callable[..., Any]) -> None:
    for number in range(400):
        store.put("T", number % 2, b"x", TAGS=("AaAa", "BBBB", "AaBB", "other")[number % 4])  # three have one hash
    store.stop()
    found = scan(store.root, topics="T", tags="AaAa")
    assert (len(found.rows), found.scanned) == (100, 300)
    (store.root / "consumequeue_ext").mkdir()  # entries may name places in there instead
    assert scan(store.root, topics="T", tags="AaAa").scanned == 400


def test_a_new_topic_of_a_running_broker_is_found_by_key(store: Any, scan: Callable[..., Any]) -> None:
    for number in range(200):
        store.put("T", 0, b"x", KEYS=f"k{number}")
    store.flush_queues()
    store.clock.advance(100_000)
    store.put("new", 0, b"in no queue yet", KEYS="k7")
    for number in range(60):
        store.put("new", 0, b"x", KEYS=f"more{number}")  # the index is written, this topic's queue is not
    assert {row["topic"] for row in scan(store.root, Comparison("keys", "=", ("k7",))).rows} == {"T", "new"}


def test_a_store_that_grows_while_it_is_read_gives_a_beginning_of_itself(
    store: Any, scan: Callable[..., Any], truth: Callable[..., list[Row]]
) -> None:
    from rocketlake.spark.scan.messages import PartRead
    from rocketlake.spark.scan.options import parse_options
    from rocketlake.spark.scan.tables import COLUMNS_OF, parts_of
    from rocketlake.spark.scan.wanted import wanted_of
    from rocketlake.spark.schema import arrow_schema, chosen_schema

    rng = random.Random(9)
    fill(store, rng, 300)
    before = truth(store.root)
    options = parse_options({"path": str(store.root), "splitBytes": "65536"})
    parts = parts_of(options, wanted_of(options))
    places = []
    schema = arrow_schema(chosen_schema("commitLogOffset", COLUMNS_OF["messages"]))
    for part in parts:
        for batch in PartRead(options, wanted_of(options), schema).batches(part):
            places += batch.column(0).to_pylist()
            fill(store, rng, 30)
    after = [row["commitLogOffset"] for row in truth(store.root)]
    assert len(before) <= len(places) <= len(after)
    assert places == after[: len(places)]


def test_nothing_in_the_folder_changes_and_no_permission_to_write_is_needed(
    store: Any, scan: Callable[..., Any]
) -> None:
    fill(store, random.Random(2), 60)
    store.stop()
    paths = [store.root, *store.root.rglob("*")]
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for table in ("messages", "consumequeue", "index", "offsets", "half", "topics", "checkpoint", "schedule"):
            scan(store.root, table=table)
    finally:
        for path in paths:
            path.chmod(0o755)
    assert {
        path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [store.root, *store.root.rglob("*")]
    } == before


def test_the_log_alone_is_read_when_nothing_is_known_of_the_queues(store: Any, scan: Callable[..., Any]) -> None:
    fill(store, random.Random(3), 40)
    store.stop()
    (store.root / "checkpoint").unlink()
    assert {type(part) for part in scan(store.root, topics="T").parts} == {LogRange}
