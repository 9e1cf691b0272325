"""`rocketlake lake` and readers on an S3 server, and the layouts that a stream may write there."""

from __future__ import annotations

import random

import duckdb
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rocketlake.cli.tree import app
from rocketlake.spark.places.location import location_of
from tests.unit.spark.lake.conftest import Query, message, places, table_rows


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_commands_on_a_table_in_a_bucket(settings: dict[str, str], table_format: str) -> None:
    url = f"s3://b/commands/{table_format}"
    given = [word for name, value in settings.items() for word in ("--option", f"{name}={value}")]

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["lake", words[0], url, *words[1:], *given], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert f"{table_format} table {url}: made" in run("create", "--format", table_format)
    query = Query(url, tableFormat=table_format, partitionBy="storeDay", **settings)
    for number in range(4):
        query.run([message(number)])
    query.task([message(4)])  # its driver is gone
    assert '"rows": 4' in run("info", "-o", "json")
    assert '{"orders": {"broker-a": {"0": 4}}}' in run("info", "--offsets")
    assert run("history", "-o", "json").count('"append"') == 4
    assert "done: 1 rewrite, 4 files before, 1 after" in run("compact")
    assert "would be deleted" in run("clean", "--grace", "0s", "--abandoned", "--dry-run")
    assert "1 file deleted" in run("clean", "--yes", "--grace", "0s", "--abandoned")
    run("expire", "--yes", "--keep-history", "0s")
    assert places(table_rows(location_of(url, settings, what="path"))) == places([message(n) for n in range(4)])
    (file,) = run("files").split()
    assert file.startswith(url)


def test_a_parquet_table_is_read_by_the_list_of_its_files(settings: dict[str, str]) -> None:
    query = Query("s3://b/listed", tableFormat="parquet", **settings)
    query.run([message(number) for number in range(5)])
    query.task([message(5)])
    given = [word for name, value in settings.items() for word in ("--option", f"{name}={value}")]
    files = CliRunner().invoke(app, ["lake", "files", "s3://b/listed", *given], catch_exceptions=False).output.split()
    store = pafs.S3FileSystem(
        endpoint_override=settings["s3.endpoint"].removeprefix("http://"), scheme="http", access_key="a", secret_key="a"
    )
    found = pq.read_table([file.removeprefix("s3://") for file in files], filesystem=store)
    assert duckdb.from_arrow(found).aggregate("count(*), sum(queueOffset)").fetchall() == [(5, 10)]


def test_a_table_for_each_topic_and_its_dead_letters_lie_beside_each_other(settings: dict[str, str]) -> None:
    query = Query("s3://b/topics", tableLayout="topic", bodyFormat="json", bodySchema="id int", **settings)
    rows = [message(0, body=b'{"id": 1}'), message(1, topic="payments", body=b"{"), message(2, body=b"{")]
    query.run(rows)
    found = {
        name: places(table_rows(location_of(f"s3://b/topics/{name}", settings, what="path")))
        for name in ("orders", "orders__dlq", "payments__dlq")
    }
    assert found == {"orders": places(rows[:1]), "orders__dlq": places(rows[2:]), "payments__dlq": places(rows[1:2])}


def test_large_bodies_are_written_and_read(settings: dict[str, str]) -> None:
    query = Query("s3://b/bodies", **settings)
    rng = random.Random(1)
    sent = [message(number, body=rng.randbytes(1 << 20)) for number in range(3)]
    query.run(sent)
    found = table_rows(location_of("s3://b/bodies", settings, what="path"))
    assert [row["body"] for row in found] == [row["body"] for row in sent]
