"""A store that does not answer while a data file is read or written: asked again, then an error with its cure."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.maintenance import compact, open_described
from rocketlake.spark.lake.reader import LakeReader, table_schema
from rocketlake.spark.places.location import OBJECTS, Location, location_of
from rocketlake.spark.places.memory import Fault, MemoryObjects
from rocketlake.spark.places.objects import Unanswered
from tests.faulty_s3 import FaultyS3
from tests.unit.spark.lake.conftest import Query, Row, message, places, table_rows

TABLE = Location(PurePosixPath("/t"), "memory", "b")
SENT = [message(number) for number in range(4)]


class Silent(MemoryObjects):
    """The next `left` ranges have no answer; all else has."""

    left = 0

    def range(self, key: str, start: int, count: int) -> bytes:
        if self.left:
            self.left -= 1
            raise Unanswered("503")
        return super().range(key, start, count)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Silent:
    store = Silent("memory://b")
    monkeypatch.setitem(OBJECTS, "memory", lambda _: store)
    query = Query("memory://b/t", tableFormat="parquet")
    for number in range(2):
        query.run(SENT[number * 2 : number * 2 + 2])
    return store


def in_spark() -> list[Row]:
    options = {"path": str(TABLE)}
    reader = LakeReader(options, table_schema(options))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def compacted() -> list[Row]:
    assert compact(TABLE, 128 << 20, dry_run=False, progress=lambda _: None).files_after == 1
    return table_rows(TABLE)


@pytest.mark.parametrize("read", [in_spark, compacted])
def test_a_part_of_a_data_file_is_asked_for_again(store: Silent, read: Callable[[], list[Row]]) -> None:
    store.left = 3
    assert places(read()) == places(SENT)
    assert store.left == 0


@pytest.mark.parametrize("read", [in_spark, compacted])
def test_a_store_that_stays_silent_ends_in_an_error_with_its_cure(store: Silent, read: Callable[[], list[Row]]) -> None:
    store.left = 4
    with pytest.raises(StoreError, match=r"did not answer 4 times: 503 \(memory://b/t/.*parquet") as raised:
        read()
    assert "s3.endpoint" in str(raised.value.hint)
    assert places(table_rows(TABLE)) == places(SENT)
    assert open_described(TABLE)[0].orphans() == []


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_server_that_stays_silent_while_a_compaction_reads(
    server: FaultyS3, settings: dict[str, str], table_format: str
) -> None:
    url = f"s3://b/silent-{table_format}"
    table = location_of(url, settings, what="the table")
    query = Query(url, tableFormat=table_format, **settings)
    for row in SENT[:2]:
        query.run([row])
    server.plan(Fault.BUSY, r"silent-.*\.parquet", times=1000, method="GET")
    with pytest.raises(StoreError, match=r"did not answer 4 times: .*503.* \(s3://b/silent-"):
        compact(table, 128 << 20, dry_run=False, progress=lambda _: None)
    server.end_faults()
    assert places(table_rows(table)) == places(SENT[:2])


def test_a_server_that_stays_silent_while_a_large_file_is_written(server: FaultyS3, settings: dict[str, str]) -> None:
    query = Query("s3://b/large", **settings)
    server.plan(Fault.BUSY, r"large.*\.parquet", times=1000, method="POST")
    body = random.Random(1).randbytes(12 << 20)  # more than one part
    with pytest.raises(StoreError, match=r"did not take a data file: .*503.* \(s3://b/large/"):
        query.task([message(0, body=body)])
    server.end_faults()
    query.run([message(0)])
    assert places(table_rows(location_of("s3://b/large", settings, what="the table"))) == places([message(0)])
