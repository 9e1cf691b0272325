"""Histories on an object store that loses answers, refuses and does things late: every message is there once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import duckdb
import pytest
from deltalake import DeltaTable

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.lake.maintenance import clean, compact, open_described
from rocketlake.spark.lake.options import NAMES, table_location
from rocketlake.spark.places.location import OBJECTS, Location, location_of
from rocketlake.spark.places.memory import Fault, Faults, MemoryObjects
from rocketlake.spark.places.place import UnknownOutcome
from tests.faulty_s3 import FaultyS3
from tests.rest_catalog import RestCatalogServer, rest_catalog
from tests.seeds import seeds
from tests.unit.spark.lake.conftest import Query, Row, message, places, table_rows

RESTARTS = "did not answer|did not take a data file|another driver committed this batch"
POINTS = ["", "", "lake.mid_write", "lake.after_write", "lake.before_commit", "lake.after_entry", "lake.after_commit"]


def history(seed: int, table: Location, end_faults: Callable[[], None], **options: str) -> None:
    """Two queries write to one table, which is compacted meanwhile."""
    rng = random.Random(seed)
    options["partitionBy"] = rng.choice(["storeDay", "none"])
    queries = [Query(str(table), f"q-{name}", **options) for name in "ab"]
    sent: list[Row] = []
    offsets = [0, 0]
    for _ in range(rng.randrange(2, 6)):
        number = rng.randrange(2)
        tasks = []
        for _ in range(rng.randrange(1, 3)):
            count = rng.randrange(0, 5)
            tasks.append([message(offsets[number] + at, queue=number) for at in range(count)])
            offsets[number] += count
        queries[number].run_with_trouble(tasks, rng, crash=rng.choice(POINTS), restart_on=RESTARTS)
        sent += [row for task in tasks for row in task]
        if rng.random() < 0.4 and sent:
            try:
                compact(table, 128 << 20, dry_run=False, progress=lambda _: None)
            except StoreError as error:
                assert "did not" in str(error)
    end_faults()
    assert places(table_rows(table)) == places(sent), seed
    clean(table, grace_seconds=0, abandoned=True, dry_run=False, now=1e12, progress=lambda _: None) if sent else None
    assert places(table_rows(table)) == places(sent), seed


@pytest.mark.parametrize("first", seeds("lake on a faulty store", short=40, whole=200, each=20))
def test_our_own_log_on_a_faulty_store_loses_and_doubles_nothing(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    met: Counter[Fault] = Counter()
    for seed in range(first, first + 20):
        store = MemoryObjects("memory://b", faults := Faults(random.Random(seed), puts=0.25, others=0.03))
        monkeypatch.setitem(OBJECTS, "memory", lambda _, store=store: store)
        history(seed, Location(PurePosixPath("/t"), "memory", "b"), store.end_faults, tableFormat="parquet")
        met += Counter(faults.seen)
    assert set(met) == set(Fault) - {Fault.NONE}


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return settings | {"s3.request-timeout": "1"}


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
@pytest.mark.parametrize("seed", seeds("lake on a faulty S3", short=1, whole=12))
def test_tables_on_a_faulty_s3_server_lose_and_double_nothing(
    seed: int, table_format: str, server: FaultyS3, settings: dict[str, str]
) -> None:
    table = location_of(f"s3://b/{table_format}-{seed}", settings, what="the table")
    server.begin_faults(seed, puts=0.15, others=0.01)
    history(seed, table, server.end_faults, tableFormat=table_format, **settings)
    if table_format == "delta" and (rows := table_rows(table)):
        found = DeltaTable(str(table), storage_options=table.open().library_options()).to_pyarrow_dataset().to_table()
        assert places(found.to_pylist()) == places(rows)
        assert duckdb.sql("select count(*), count(distinct (queueId, queueOffset)) from found").fetchall() == [
            (len(rows), len(rows))
        ]


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.NONE], ids=lambda fault: fault.name)
def test_one_fault_at_a_commit_of_delta_neither_loses_nor_doubles_it(
    fault: Fault, server: FaultyS3, settings: dict[str, str]
) -> None:
    table = location_of(f"s3://b/one-{fault.name}", settings, what="the table")
    query = Query(str(table), **settings)
    server.plan(fault, "one-.*_delta_log")  # the table is made
    query.run([message(0)])
    server.plan(fault, "one-.*_delta_log")
    query.run([message(1)])
    server.plan(fault, "one-.*_delta_log")
    done = compact(table, 128 << 20, dry_run=False, progress=lambda _: None)
    server.plan(fault, "one-.*_delta_log")  # a new column
    Query(str(table), "q-2", **{**settings, "bodyFormat": "json", "bodySchema": "id int"}).run([message(2, body=b"{}")])
    server.end_faults()
    assert (done.rewrites, done.files_after) == (1, 1)
    assert places(table_rows(table)) == places([message(number) for number in range(3)])
    history = open_described(table)[0].history(100)
    assert sorted((each.query, each.batch) for each in history if each.query) == [("q-1", 0), ("q-1", 1), ("q-2", 0)]
    operations = Counter(each.operation for each in history)
    assert operations == {"create table": 1, "append": 3, "replace": 1, "add column": 1}


@pytest.fixture
def rest(memory_path: Path) -> Iterator[RestCatalogServer]:
    with rest_catalog(memory_path) as served:
        yield served


def of_rest(rest: RestCatalogServer) -> dict[str, str]:
    return {"tableFormat": "iceberg", "catalog.type": "rest", "catalog.uri": rest.address}


@pytest.mark.parametrize("seed", seeds("lake in a faulty catalog", short=1, whole=12))
def test_iceberg_in_a_faulty_catalog_loses_and_doubles_nothing(
    seed: int, rest: RestCatalogServer, memory_path: Path
) -> None:
    options = of_rest(rest)
    table = table_location(NAMES.given({"path": f"{memory_path}/t-{seed}", **options}))
    rest.faults = Faults(random.Random(seed), puts=0.25, others=0.03)
    history(seed, table, rest.end_faults, **options)
    if rows := table_rows(table):
        found = rest.catalog.load_table(("lake", f"t-{seed}")).scan().to_arrow()
        assert places(found.to_pylist()) == places(rows)


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.NONE], ids=lambda fault: fault.name)
def test_one_fault_at_a_commit_of_iceberg_neither_loses_nor_doubles_it(
    fault: Fault, rest: RestCatalogServer, memory_path: Path
) -> None:
    options = of_rest(rest)
    table = table_location(NAMES.given({"path": f"{memory_path}/one", **options}))
    query = Query(str(table), **options)
    for number in range(2):  # the table is made, too
        rest.planned = [fault]
        query.run([message(number)])
    rest.planned = [fault]
    done = compact(table, 128 << 20, dry_run=False, progress=lambda _: None)
    rest.end_faults()
    assert (done.rewrites, done.files_after) == (1, 1)
    assert places(table_rows(table)) == places([message(number) for number in range(2)])
    operations = Counter(each.operation for each in open_described(table)[0].history(100))
    assert operations == {"append": 2, "replace": 1}


def test_files_of_a_commit_that_may_be_made_late_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryObjects("memory://b")
    monkeypatch.setitem(OBJECTS, "memory", lambda _: store)
    query = Query("memory://b/t", tableFormat="parquet")
    written = [query.task([message(0)])]
    store.faults = OnlyLate()
    with pytest.raises(UnknownOutcome, match="make it late"):
        query.commit(written)
    store.faults = None
    query.abort(written)
    store.end_faults()
    table = Location(PurePosixPath("/t"), "memory", "b")
    assert places(table_rows(table)) == places([message(0)])
    query.run([message(0)])  # after its restart the query finds the batch there
    assert len(table_rows(table)) == 1


class OnlyLate(Faults):
    """Every put is late; whatever else is asked has an answer."""

    def __init__(self) -> None:
        super().__init__(random.Random(0), puts=1, others=0)

    def next(self, *, is_put: bool) -> Fault:
        return Fault.LATE if is_put else Fault.NONE

    def lands(self) -> bool:
        return False


def test_a_failed_task_leaves_nothing_in_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryObjects("memory://b")
    monkeypatch.setitem(OBJECTS, "memory", lambda _: store)
    query = Query("memory://b/t", tableFormat="parquet", partitionBy="queueId", maxPartitions="2")
    with pytest.raises(UsageError, match="more than 2 partitions"):
        query.task([message(0, queue=queue) for queue in range(3)])
    assert [key for key in store.objects if "/staging/" in key] == []
