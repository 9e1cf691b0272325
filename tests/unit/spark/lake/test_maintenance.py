"""Compaction, expiry and cleaning change nothing that a reader may miss, and give way to a stream."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from typer.testing import CliRunner

from rocketlake.base.crash_point import struck_by
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.cli.tree import app
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.maintenance import clean, compact, drop_days_before, open_described, plan_compaction
from rocketlake.spark.lake.tables.table import DataFile
from rocketlake.spark.schema import COLUMNS
from tests.unit.spark.lake.conftest import DAY, Killed, Query, message, places, table_rows

FORMATS = ["parquet", "delta", "iceberg"]
MB = 1 << 20


def silent(_: str) -> None:
    pass


def fill(folder: Path, table_format: str, batches: int = 4, **options: str) -> tuple[Query, list[dict[str, Any]]]:
    query = Query(folder, tableFormat=table_format, **options)
    sent = [message(offset, tags="ABC"[offset % 3]) for offset in range(batches * 9)]
    for number in range(batches):
        query.run(sent[number * 9 : number * 9 + 9])
    return query, sent


def clean_now(folder: Path, **options: Any) -> int:
    return clean(folder, **{"grace_seconds": 0, "abandoned": False, "dry_run": False, "now": time.time() + 60,
                            "progress": silent} | options)  # fmt: skip


@pytest.mark.parametrize("table_format", FORMATS)
def test_compaction_leaves_one_file_a_partition_and_all_rows(tmp_path: Path, table_format: str) -> None:
    query, sent = fill(tmp_path / "t", table_format, partitionBy="storeDay,tags")
    said: list[str] = []
    planned = compact(tmp_path / "t", 128 * MB, dry_run=True, progress=said.append)
    assert (planned.rewrites, planned.files_before, planned.files_after, len(said)) == (3, 12, 3, 3)
    assert len(open_described(tmp_path / "t")[0].files()) == 12
    done = compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)
    assert (done.rewrites, done.files_before, done.files_after) == (3, 12, 3)
    assert places(table_rows(tmp_path / "t")) == places(sent)
    if table_format == "parquet":
        assert ds.dataset(tmp_path / "t").count_rows() == len(sent)
    query.run([message(1000)])
    assert len(table_rows(tmp_path / "t")) == len(sent) + 1
    assert compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent).rewrites == 1


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_stream_may_commit_while_files_are_rewritten(tmp_path: Path, table_format: str) -> None:
    query, sent = fill(tmp_path / "t", table_format)
    late = [message(100), message(101)]
    passed: list[str] = []

    def commit_meanwhile(point: str) -> None:
        if point == "lake.mid_write" and not passed:
            passed.append(point)
            query.run(late)

    with struck_by(commit_meanwhile):
        done = compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)
    assert (done.rewrites, done.files_after, done.lost_races) == (1, 2, 0)
    assert places(table_rows(tmp_path / "t")) == places(sent + late)


@pytest.mark.parametrize("table_format", FORMATS)
def test_of_two_compactions_one_gives_way(tmp_path: Path, table_format: str) -> None:
    _, sent = fill(tmp_path / "t", table_format)
    passed: list[str] = []

    def compact_meanwhile(point: str) -> None:
        if point == "lake.mid_write" and not passed:
            passed.append(point)
            compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)

    with struck_by(compact_meanwhile):
        done = compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)
    assert (done.rewrites, done.lost_races) == (0, 1)
    assert places(table_rows(tmp_path / "t")) == places(sent)
    if table_format == "parquet":
        assert ds.dataset(tmp_path / "t").count_rows() == len(sent)


@pytest.mark.parametrize("point", ["lake.mid_write", "lake.after_entry", "lake.mid_moves"])
def test_a_compaction_that_is_killed_is_finished_or_forgotten(tmp_path: Path, point: str) -> None:
    query, sent = fill(tmp_path / "t", "parquet")

    def strike(name: str) -> None:
        if name == point:
            raise Killed

    with pytest.raises(Killed), struck_by(strike):
        compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)
    assert places(table_rows(tmp_path / "t")) == places(sent)
    clean_now(tmp_path / "t")
    assert ds.dataset(tmp_path / "t").count_rows() == len(sent)
    query.run([message(100)])
    assert ds.dataset(tmp_path / "t").count_rows() == len(sent) + 1


def test_a_plan_fills_files_up_to_the_target_and_leaves_full_ones() -> None:
    sizes = [30, 30, 30, 90, 30, 30, 10]
    files = [DataFile(f"{n}", (("day", "1"),), 1, size) for n, size in enumerate(sizes)]
    files.append(DataFile("other", (("day", "2"),), 1, 5))
    plan = [[file.bytes for file in rewrite.files] for rewrite in plan_compaction(files, 100)]
    assert plan == [[30, 30, 30], [30, 30, 10]]


def test_folders_of_an_earlier_release_are_read_written_beside_and_renamed_by_a_compaction(tmp_path: Path) -> None:
    """It wrote letters outside ASCII as bytes of UTF-8, which Spark does not put together again."""
    folder, old = tmp_path / "t", "tags=%E6%9D%AD%E5%B7%9E"
    query = Query(folder, partitionBy="tags")
    query.run([message(0, tags="杭州")])
    (folder / "tags=杭州").rename(folder / old)
    (entry,) = (folder / "_rocketlake" / "log").glob("0*.json")
    entry.write_text(entry.read_text("utf-8").replace("tags=杭州", old), "utf-8")
    assert [row["tags"] for row in table_rows(folder)] == ["杭州"]
    assert compact(folder, 1, dry_run=True, progress=silent).rewrites == 1
    query.run([message(1, tags="杭州"), message(2, tags="b")])
    assert len(list((folder / old).iterdir())) == 1
    assert clean_now(folder) == 0
    assert compact(folder, 1, dry_run=False, progress=silent).rewrites == 1
    assert compact(folder, 1, dry_run=False, progress=silent).rewrites == 0
    assert sorted(path.name for path in folder.glob("tags=*")) == ["tags=b", "tags=杭州"]
    assert {row["queueOffset"]: row["tags"] for row in table_rows(folder)} == {0: "杭州", 1: "杭州", 2: "b"}


@pytest.mark.parametrize("table_format", FORMATS)
def test_old_days_are_dropped_whole(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path / "t", tableFormat=table_format)
    days = [message(n, storeTimestamp=DAY - datetime.timedelta(days=n)) for n in range(5)]
    query.run(days)
    limit = DAY.date() - datetime.timedelta(days=2)
    assert drop_days_before(tmp_path / "t", limit, dry_run=True, progress=silent) == 2
    assert len(table_rows(tmp_path / "t")) == 5
    assert drop_days_before(tmp_path / "t", limit, dry_run=False, progress=silent) == 2
    assert places(table_rows(tmp_path / "t")) == places(days[:3])
    if table_format == "parquet":
        assert len(list((tmp_path / "t").glob("storeDay=*"))) == 3
    query.run([message(9)])
    assert len(table_rows(tmp_path / "t")) == 4


def test_a_table_without_days_drops_none(tmp_path: Path) -> None:
    fill(tmp_path / "t", "parquet", partitionBy="tags")
    with pytest.raises(UsageError, match=r"not partitioned by storeDay.*partitionBy = storeDay.*storeTimestamp"):
        drop_days_before(tmp_path / "t", DAY.date(), dry_run=False, progress=silent)


@pytest.mark.parametrize("table_format", FORMATS)
def test_history_is_forgotten_but_not_what_a_replay_needs(tmp_path: Path, table_format: str) -> None:
    query, sent = fill(tmp_path / "t", table_format)
    compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)
    table, _ = open_described(tmp_path / "t")
    table.expire(int(time.time() * 1000) + 60_000, dry_run=False, progress=silent)
    on_disk = [path for path in (tmp_path / "t").rglob("b0*.parquet") if "_rocketlake" not in path.parts]
    assert len(on_disk) == 1
    assert places(table_rows(tmp_path / "t")) == places(sent)
    query.next_batch -= 1
    query.run(sent[27:])  # Spark was killed between our commit and its own
    assert places(table_rows(tmp_path / "t")) == places(sent)
    query.run([message(99)])
    assert len(table_rows(tmp_path / "t")) == len(sent) + 1


@pytest.mark.parametrize("table_format", FORMATS)
def test_orphans_go_when_their_batch_is_decided_and_they_are_old(tmp_path: Path, table_format: str) -> None:
    query, sent = fill(tmp_path / "t", table_format, batches=1)
    query.task([message(9)])  # a lost attempt at batch 1
    messages = [query.task([message(9)])]
    assert clean_now(tmp_path / "t") == 0
    query.commit(messages)
    assert clean_now(tmp_path / "t", grace_seconds=3600) == 0
    assert clean_now(tmp_path / "t", dry_run=True) == 1
    assert clean_now(tmp_path / "t") == 1
    assert clean_now(tmp_path / "t") == 0
    query.next_batch += 1
    query.task([message(10)])
    assert clean_now(tmp_path / "t") == 0
    assert clean_now(tmp_path / "t", abandoned=True) == 1
    assert places(table_rows(tmp_path / "t")) == places([*sent, message(9)])


def test_cleaning_keeps_what_others_put_there(tmp_path: Path) -> None:
    fill(tmp_path / "t", "parquet", batches=1)
    (tmp_path / "t" / "notes.parquet").write_bytes(b"mine")
    os.utime(tmp_path / "t" / "notes.parquet", (0, 0))
    (tmp_path / "t" / "_rocketlake" / "log" / ".half").write_bytes(b"")
    assert clean_now(tmp_path / "t", abandoned=True) == 1
    assert (tmp_path / "t" / "notes.parquet").exists()


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_commands_say_what_they_do(tmp_path: Path, table_format: str) -> None:
    folder = str(tmp_path / "t")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["lake", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    made = run("create", folder, "--format", table_format, "--columns", "id int, price float")
    assert f"{table_format} table {folder}: made, {len(COLUMNS) + 2} columns" in made
    assert "there already" in run("create", folder, "--format", table_format, "--columns", "id int, price float")
    query = Query(tmp_path / "t", tableFormat=table_format, bodyFormat="json", bodySchema="id int")
    query.run([message(n, body=b'{"id": 1}') for n in range(5)])
    query.run([message(n, body=b'{"id": 1}') for n in range(5, 7)], [message(0, queue=1, body=b"bad")])
    shown = run("info", folder)
    assert "rows               7" in shown
    assert [line.split() for line in shown.splitlines()][-2:] == [
        ["orders", "broker-a", "0", "7"],
        ["orders", "broker-a", "1", "1"],
    ]
    assert "`price` double" in run("info", folder, "--ddl")
    assert run("info", folder, "--offsets").strip() == '{"orders": {"broker-a": {"0": 7, "1": 1}}}'
    newest = run("history", folder).splitlines()[1].split()
    assert newest[3:] == ["append", "2", "1", "1", "1", "q-1"]
    assert "would be done: 1 rewrite, 2 files before, 1 after" in run("compact", folder, "--dry-run")
    assert "done: 1 rewrite, 2 files before, 1 after" in run("compact", folder)
    assert "0 rows dropped" in run("expire", folder, "--yes", "--rows-older-than-days", "36500", "--keep-history", "1h")
    assert "0 files deleted" in run("clean", folder, "--yes")


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_dry_run_writes_nothing_also_where_a_killed_writer_left_work(tmp_path: Path, table_format: str) -> None:
    query, _ = fill(tmp_path / "t", table_format)

    def strike(name: str) -> None:
        if name in ("lake.after_entry", "lake.after_commit"):
            raise Killed(name)

    with struck_by(strike), pytest.raises(Killed):
        query.run([message(100)])

    def contents() -> dict[Path, tuple[int, bytes]]:
        files = (path for path in tmp_path.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = contents()
    for arguments in (
        ("compact",),
        ("expire", "--yes", "--rows-older-than-days", "1", "--keep-history", "1s"),
        ("clean", "--yes"),
    ):
        result = CliRunner().invoke(app, ["lake", *arguments, str(tmp_path / "t"), "--dry-run"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert contents() == before


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_column_that_comes_while_files_are_compacted_is_kept(
    tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: the stream goes on while the command opens the table."""
    query = Query(tmp_path / "t", tableFormat=table_format, bodyFormat="json")
    for number in range(3):
        query.run([message(number, body=b'{"a": 1}')])
    table = type(open_described(tmp_path / "t")[0])
    recover = table.recover

    def goes_on(self: Any) -> None:
        monkeypatch.setattr(table, "recover", recover)
        recover(self)
        for number in (3, 4):
            query.run([message(number, body=b'{"a": 1, "b": %d}' % number)])

    monkeypatch.setattr(table, "recover", goes_on)
    assert compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent).rewrites == 1
    rows = sorted(table_rows(tmp_path / "t"), key=lambda row: row["queueOffset"])
    assert [row["b"] for row in rows] == [None, None, None, 3, 4]


def test_a_file_with_a_column_that_nobody_described_is_not_rewritten(tmp_path: Path) -> None:
    fill(tmp_path / "t", "parquet", batches=2)
    for path in (tmp_path / "t").glob("storeDay=*/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.append_column("foreign", pa.array([1] * len(table))), path)
    with pytest.raises(StoreError, match=r"columns that the table's description lacks: foreign"):
        compact(tmp_path / "t", 128 * MB, dry_run=False, progress=silent)


def test_offsets_that_are_not_known_are_explained(tmp_path: Path) -> None:
    schema = StructType([StructField("id", LongType())])
    Query(tmp_path / "t", schema=schema).run([{"id": 1}])
    with pytest.raises(UsageError, match=r"no offsets are known.*topic, brokerName, queueId and queueOffset"):
        CliRunner().invoke(app, ["lake", "info", str(tmp_path / "t"), "--offsets"], catch_exceptions=False)


@pytest.mark.parametrize("place", ["hdfs://host:8020/orders", "viewfs:/orders"])
def test_a_table_on_another_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("create", "info", "history", "compact", "expire", "clean"):
        with pytest.raises(UsageError, match=r"another file system.*/data/orders; or s3://bucket/folder"):
            CliRunner().invoke(app, ["lake", command, place], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "option"),
    [(("clean", "--grace", "5"), "--grace"), (("expire", "--keep-history", "7x"), "--keep-history")],
)
def test_a_length_of_time_is_refused_by_its_option_before_anything_is_asked(
    tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    Query(tmp_path / "t").run([{"id": 1}])
    with pytest.raises(UsageError, match=f"option '{option}' holds length of time"):
        CliRunner().invoke(app, ["lake", words[0], str(tmp_path / "t"), *words[1:]], catch_exceptions=False)


def test_days_are_days_in_the_question(tmp_path: Path) -> None:
    Query(tmp_path / "t").run([{"id": 1}])
    words = ["lake", "expire", str(tmp_path / "t"), "--rows-older-than-days", "90"]
    assert "older than 90 days, " in CliRunner().invoke(app, words, input="n\n").output


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_a_table_may_be_given_as_a_file_uri(tmp_path: Path, prefix: str) -> None:
    result = CliRunner().invoke(app, ["lake", "create", f"{prefix}{tmp_path}/t"], catch_exceptions=False)
    assert f"parquet table {tmp_path}/t: made" in result.output
    assert Descriptions(tmp_path / "t").latest() is not None


def test_a_folder_that_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no lake table"):
        CliRunner().invoke(app, ["lake", "info", str(tmp_path)], catch_exceptions=False)


def test_days_of_small_batches_with_compaction_stay_few_large_files(memory_path: Path) -> None:
    """Three days of a batch every hour, compacted every eight hours, kept two days; sizes a thousandth of real ones."""
    query, target, sent = Query(memory_path / "t"), 128 << 10, []
    for number in range(72):
        moment = DAY.replace(hour=0) + datetime.timedelta(hours=number)
        rows = [message(number * 3 + n, body=os.urandom(3000), storeTimestamp=moment) for n in range(3)]
        query.run(rows)
        sent += rows
        if number % 8 == 7:
            compact(memory_path / "t", target, dry_run=False, progress=silent)
            clean_now(memory_path / "t")
    drop_days_before(memory_path / "t", DAY.date() + datetime.timedelta(days=1), dry_run=False, progress=silent)
    done = compact(memory_path / "t", target, dry_run=False, progress=silent)
    assert done.files_after <= 2 * 4
    assert done.median_bytes >= target / 2
    kept = [row for row in sent if row["storeTimestamp"].date() > DAY.date()]
    assert places(table_rows(memory_path / "t")) == places(kept)
    assert ds.dataset(memory_path / "t").count_rows() == len(kept)
    on_disk = [path for path in (memory_path / "t").rglob("b0*") if path.is_file()]
    assert len(on_disk) == done.files_after


def test_an_iceberg_table_keeps_the_newest_metadata_files_only(memory_path: Path) -> None:
    query = Query(memory_path / "t", tableFormat="iceberg")
    for offset in range(22):
        query.run([message(offset)])
    assert len(list((memory_path / "t" / "metadata").glob("*.metadata.json"))) == 21
    assert places(table_rows(memory_path / "t")) == places([message(offset) for offset in range(22)])
