"""What a repeated, foreign or half-finished batch means."""

from __future__ import annotations

import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from rocketlake.base.clock import SystemClock
from rocketlake.base.crash_point import struck_by
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.maintenance import open_described
from rocketlake.spark.lake.offset_ranges import beyond
from rocketlake.spark.lake.table_schema import stream_columns
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.lake.tables.parquet_table import ParquetTable
from rocketlake.spark.lake.tables.table import BatchPart, DataFile, data_file_name
from tests.unit.spark.lake.conftest import SCHEMA, Killed, Query, message, places, table_rows

FORMATS = ["parquet", "delta", "iceberg"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_of_two_drivers_with_one_checkpoint_one_fails_clearly(tmp_path: Path, table_format: str) -> None:
    first, second = (Query(tmp_path / "t", tableFormat=table_format) for _ in range(2))
    rows = [message(offset) for offset in range(10)]
    written = [[query.task(rows)] for query in (first, second)]
    first.commit(written[0])
    with pytest.raises(StoreError, match="another driver committed this batch"):
        second.commit(written[1])
    second.abort(written[1])
    first.abort(written[0])
    assert places(table_rows(tmp_path / "t")) == places(rows)
    table, _ = open_described(tmp_path / "t")
    assert table.orphans() == []
    second.run(rows)  # after its restart it sees the batch and goes on
    second.run([message(10)])
    assert len(table_rows(tmp_path / "t")) == 11


@pytest.mark.parametrize("table_format", FORMATS)
def test_two_drivers_that_commit_at_once(tmp_path: Path, table_format: str) -> None:
    Query(tmp_path / "t", query="other", tableFormat=table_format).run([message(0, queue=7)])
    first, second = (Query(tmp_path / "t", tableFormat=table_format) for _ in range(2))
    written = [query.task([message(0)]) for query in (first, second)]
    done: list[str] = []

    def commit_meanwhile(point: str) -> None:
        if point == "lake.before_commit" and not done:
            done.append(point)
            second.commit([written[1]])

    with struck_by(commit_meanwhile), pytest.raises(StoreError, match="another driver"):
        first.commit([written[0]])
    assert len(table_rows(tmp_path / "t")) == 2


@pytest.mark.parametrize("table_format", FORMATS)
def test_two_queries_share_a_table(tmp_path: Path, table_format: str) -> None:
    queries = [Query(tmp_path / "t", query=f"q-{name}", tableFormat=table_format) for name in "ab"]
    for batch in range(3):
        for number, query in enumerate(queries):
            query.run([message(batch, queue=number)])
    assert len(table_rows(tmp_path / "t")) == 6


@pytest.mark.parametrize("table_format", FORMATS)
def test_an_old_copy_of_a_checkpoint_is_noticed_before_messages_are_lost(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path / "t", tableFormat=table_format)
    query.run([message(0), message(1)])
    query.run([message(2)])
    for batch in (0, 1):
        query.next_batch = batch
        with pytest.raises(StoreError, match=r"with other messages .* offsets [0-9] to 5, committed were"):
            query.run([message(offset) for offset in range(2, 6)])
    query.next_batch = 1
    query.run([message(2)])  # the same again is a replay
    assert len(table_rows(tmp_path / "t")) == 3


def rows_of(columns: str, numbers: range, plan: int = 0) -> list[dict[str, Any]]:
    """Rows as a query selects them: without a place in a queue, or with half of one."""
    made = [message(number) | {"id": number + plan, "price": number * 0.1, "city": f"c{number}"} for number in numbers]
    return [{name: row[name] for name in columns.split()} for row in made]


PROJECTIONS = ["id price city", "id queueId queueOffset", "id properties"]
FIELDS = {"id": LongType(), "price": DoubleType(), "city": StringType()}


def projected(folder: Path, columns: str, **options: str) -> Query:
    fields = [StructField(name, FIELDS.get(name) or SCHEMA[name].dataType) for name in columns.split()]
    return Query(folder, schema=StructType(fields), partitionBy="none", **options)


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("columns", PROJECTIONS)
def test_an_old_copy_is_noticed_whatever_the_query_selects(tmp_path: Path, table_format: str, columns: str) -> None:
    """S2: histories D3 and D3b. Ten messages, a copy of the checkpoint, ten, ten; the copy comes back."""
    query = projected(tmp_path / "t", columns, tableFormat=table_format)
    query.run(rows_of(columns, range(10)))
    query.run(rows_of(columns, range(10, 20)))
    for again in (range(10, 30), range(20, 30), range(10, 19)):
        query.next_batch = 1
        with pytest.raises(StoreError, match=r"with other rows .*10 rows then"):
            query.run(rows_of(columns, again))
    query.next_batch = 1
    shuffled = rows_of(columns, range(10, 20))[::-1]
    query.run(shuffled[:3], shuffled[3:])
    assert len(table_rows(tmp_path / "t")) == 20


def test_an_old_copy_whose_record_has_expired_is_noticed(tmp_path: Path) -> None:
    query = projected(tmp_path / "t", "id city")
    for number in range(70):
        query.run(rows_of("id city", range(number, number + 1)))
    open_table(tmp_path / "t", "parquet").expire(1 << 60, dry_run=False, progress=lambda _: None)
    query.next_batch = 3
    with pytest.raises(StoreError, match="a later batch of this query, and no record of this one"):
        query.run(rows_of("id city", range(3, 4)))


def test_a_changed_condition_in_a_committed_batch_is_noticed(tmp_path: Path) -> None:
    """As D2, for rows that have their place: all of them lie inside the offsets that were committed."""
    query = Query(tmp_path / "t")
    query.run([message(offset) for offset in (0, 1, 2, 9)])
    query.next_batch = 0
    with pytest.raises(StoreError, match="with other rows"):
        query.run([message(offset) for offset in (0, 3, 5, 9)])


def test_rows_that_are_other_ones_each_time_need_not_be_compared(tmp_path: Path) -> None:
    query = projected(tmp_path / "t", "id", compareReplays="false")
    query.run(rows_of("id", range(3)))
    query.next_batch = 0
    query.run(rows_of("id", range(3), plan=7))
    assert len(table_rows(tmp_path / "t")) == 3


def test_a_commit_of_a_release_that_kept_no_content_is_compared_by_offsets_only(tmp_path: Path) -> None:
    query = Query(tmp_path / "t")
    query.run([message(0), message(1), message(5)])
    (entry,) = (tmp_path / "t" / "_rocketlake" / "log").glob("0*.json")
    text = entry.read_text()
    old = re.sub(r'"content":"[^"]*",', "", text)
    assert old != text
    entry.write_text(old)
    query.next_batch = 0
    query.run([message(0), message(3), message(5)])
    assert len(table_rows(tmp_path / "t")) == 3


def test_ranges_are_compared_by_queue() -> None:
    known = {"T": {"b": {"0": (5, 10)}}}
    assert beyond({"T": {"b": {"0": (5, 10)}}}, known) == ""
    assert beyond({"T": {"b": {"0": (6, 9)}}}, known) == ""
    assert "offsets 5 to 10, committed were 5 to 9" in beyond({"T": {"b": {"0": (5, 11)}}}, known)
    assert "committed were none" in beyond({"T": {"b": {"1": (5, 6)}}}, known)


def test_a_file_that_is_gone_fails_the_commit_not_the_table(tmp_path: Path) -> None:
    for table_format in FORMATS:
        query = Query(tmp_path / table_format, tableFormat=table_format)
        query.run([message(0)])
        written = query.task([message(1)])
        (file,) = (tmp_path / table_format).rglob(f"{written.tables[0].files[0].name}*")
        file.unlink()
        with pytest.raises(StoreError, match="is not there for the driver"):
            query.commit([written])
        assert len(table_rows(tmp_path / table_format)) == 1


def test_a_failed_task_leaves_no_file(tmp_path: Path) -> None:
    query = Query(tmp_path / "t", partitionBy="queueId", maxPartitions="2")
    with pytest.raises(Exception, match="more than 2 partitions"):
        query.task([message(0, queue=queue) for queue in range(3)])
    assert not [path for path in (tmp_path / "t").rglob("*") if "b0" in path.name]


class PowerLost(BaseException):
    """The machine stopped here."""


DESCRIPTION = TableDescription(1, "parquet", "rows", (), stream_columns(SCHEMA))


def part_of(files: MemoryFiles, table: ParquetTable, batch: int, attempt: str, count: int) -> BatchPart:
    written = []
    for number in range(count):
        name = data_file_name("q", batch, attempt, number)
        partition = (("day", str(number % 2)),)
        files.write_bytes(table.file_path(name, partition), b"rows")
        written.append(DataFile(name, partition, 1, 4))
    return BatchPart("q", batch, (attempt,), tuple(written), {})


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_at_any_step_loses_and_doubles_nothing(seed: int) -> None:
    """The disk forgets what was not synced; what the log says is live lies where readers look, and nothing else."""
    rng = random.Random(seed)
    files = MemoryFiles()
    folder = Path("/t")
    live: dict[str, int] = {}
    for batch in range(rng.randrange(2, 8)):
        cut_at = rng.randrange(1, 60)
        for attempt in range(2):
            counted = _Counting(files, cut_at if attempt == 0 else 1 << 30)
            table = ParquetTable(folder, counted, SystemClock())  # type: ignore[arg-type]
            try:
                part = part_of(counted, table, batch, f"{batch:016x}{attempt:016x}", rng.randrange(1, 4))  # type: ignore[arg-type]
                if not table.append(part, DESCRIPTION):
                    table.recover()
                if rng.random() < 0.2:
                    olds = table.files()
                    name = data_file_name("compact-x", 0, f"{batch:032x}", attempt)
                    new = DataFile(name, (("day", "0"),), sum(file.rows for file in olds), 4)
                    counted.write_bytes(table.file_path(name, new.partition), b"rows")
                    assert table.exchange(olds, [new], DESCRIPTION, "replace")
                break
            except PowerLost:
                files = files.power_cut(rng)
    table = ParquetTable(folder, files)
    table.recover()
    live = {file.name: file.rows for file in table.files()}
    visible = {f"day={day}/{name}" for day in "01" for name in files.list_dir(folder / f"day={day}")}
    assert visible == set(live)
    committed = {entry.batch: entry.rows for entry in table.history(1000) if entry.operation == "append"}
    assert sorted(committed) == list(range(batch + 1))
    assert sum(live.values()) == sum(committed.values())


class _Counting:
    """The disk, whose power goes at the n-th change."""

    def __init__(self, files: MemoryFiles, changes: int) -> None:
        self._files = files
        self._left = changes

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._files, name)
        if name not in ("write_bytes", "rename", "link", "remove", "sync_dir", "make_dirs"):
            return call

        def counted(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise PowerLost
            return call(*arguments)

        return counted


def test_a_writer_that_slept_while_entries_were_forgotten_is_refused() -> None:
    files = MemoryFiles()
    table, sleeper = ParquetTable(Path("/t"), files), ParquetTable(Path("/t"), files)
    table.append(part_of(files, table, 0, f"{0:032x}", 1), DESCRIPTION)
    late = part_of(files, table, 99, f"{99:032x}", 1)
    old_head = sleeper._log.head()
    for batch in range(1, 5):
        table.append(part_of(files, table, batch, f"{batch:032x}", 1), DESCRIPTION)
    assert table.expire(1 << 60, dry_run=False, progress=lambda _: None) == 4
    assert old_head is not None
    stale = old_head.__class__(version=2, ms=0, operation="append", schema=1, rows=0, bytes=0)
    assert not sleeper._log.append(stale)
    assert len(table.files()) == 5
    assert table.append(late, DESCRIPTION)
    assert len(table.files()) == 6


@pytest.mark.parametrize("point", ["lake.after_entry", "lake.mid_moves"])
def test_what_a_killed_driver_left_unmoved_is_read_by_the_log_and_moved_by_the_next(tmp_path: Path, point: str) -> None:
    query = Query(tmp_path / "t", partitionBy="queueId")
    written = [query.task([message(0, queue=queue)]) for queue in range(3)]

    def strike(name: str) -> None:
        if name == point:
            raise Killed

    with pytest.raises(Killed), struck_by(strike):
        query.commit(written)
    assert len(table_rows(tmp_path / "t")) == 3
    assert len(list((tmp_path / "t").glob("queueId=*/*.parquet"))) == (1 if point == "lake.mid_moves" else 0)
    query.abort(written)
    query.run([message(0, queue=0)], [message(0, queue=1)], [message(0, queue=2)])
    assert len(list((tmp_path / "t").glob("queueId=*/*.parquet"))) == 3


@pytest.mark.parametrize("table_format", FORMATS)
def test_drivers_that_race_for_a_batch_leave_its_rows_once(tmp_path: Path, table_format: str) -> None:
    """Both have looked and found nothing when they commit: the table's own log must refuse one."""
    drivers = [Query(tmp_path / "t", tableFormat=table_format) for _ in range(3)]
    for batch in range(4):
        written = []
        for query in drivers:
            query.next_batch = batch
            written.append(query.task([message(batch)]))
        together = threading.Barrier(len(drivers))

        def commit(number: int, written: list[Any] = written, together: threading.Barrier = together) -> str:
            together.wait()
            try:
                drivers[number].commit([written[number]])
            except StoreError as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(len(drivers)) as pool:
            said = list(pool.map(commit, range(len(drivers))))
        assert said.count("") == 1
        assert all("another driver" in text for text in said if text)
    assert len(table_rows(tmp_path / "t")) == 4


@pytest.mark.parametrize("table_format", FORMATS)
def test_queries_that_race_for_a_table_all_get_in(tmp_path: Path, table_format: str) -> None:
    queries = [Query(tmp_path / "t", query=f"q-{number}", tableFormat=table_format) for number in range(3)]

    def run(number: int) -> None:
        for batch in range(3):
            # Batches written before: Spark's task context belongs to the process, not to the thread.
            queries[number].commit([written[number, batch]])
            queries[number].next_batch += 1

    written = {}
    for number, query in enumerate(queries):
        for batch in range(3):
            query.next_batch = batch
            written[number, batch] = query.task([message(batch, queue=number)])
        query.next_batch = 0
    with ThreadPoolExecutor(len(queries)) as pool:
        list(pool.map(run, range(len(queries))))
    assert len(table_rows(tmp_path / "t")) == 9
    if table_format == "parquet":
        assert len(list((tmp_path / "t").glob("storeDay=*/*.parquet"))) == 9


def test_another_query_moves_what_a_killed_driver_left(tmp_path: Path) -> None:
    """Else it would be hidden for good: only the newest entry is ever settled."""
    killed, other = Query(tmp_path / "t", query="q-1"), Query(tmp_path / "t", query="q-2")
    written = killed.task([message(0)])

    def strike(name: str) -> None:
        if name == "lake.after_entry":
            raise Killed

    with pytest.raises(Killed), struck_by(strike):
        killed.commit([written])
    other.run([message(0, queue=1)])
    assert len(list((tmp_path / "t").glob("storeDay=*/*.parquet"))) == 2


@pytest.mark.parametrize("place", ["../../victim.parquet", "/victim.parquet", "a/../../victim", "a//b"])
def test_an_entry_that_names_files_outside_the_table_is_refused(tmp_path: Path, place: str) -> None:
    Query(tmp_path / "t").run([message(0)])
    (entry,) = (tmp_path / "t" / "_rocketlake" / "log").glob("0*.json")
    value = json.loads(entry.read_text())
    entry.with_name(f"{2:020d}.json").write_text(json.dumps(value | {"version": 2, "add": [], "remove": [place]}))
    with pytest.raises(StoreError, match="no path inside the table"):
        table_rows(tmp_path / "t")


@pytest.mark.parametrize("text", [b"", b"{", b'{"version": 2}', b"[]"])
def test_an_entry_that_is_damaged_is_named(tmp_path: Path, text: bytes) -> None:
    Query(tmp_path / "t").run([message(0)])
    log = tmp_path / "t" / "_rocketlake" / "log"
    (log / f"{2:020d}.json").write_bytes(text)
    with pytest.raises(StoreError, match=f"{2:020d}.json"):
        table_rows(tmp_path / "t")
