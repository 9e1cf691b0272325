"""The upkeep of a served table: one call does what the commands of `rocketlake lake` do."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from rocketlake.spark.lake.maintenance import open_described
from rocketlake.spark.pipeline.serving.plan import ServePlan
from rocketlake.spark.pipeline.serving.upkeep import Upkeep, look_after
from rocketlake.spark.places.location import Location
from tests.unit.spark.lake.conftest import Query, message, places, table_rows

NOW = datetime.datetime.now(datetime.UTC)


def plan(folder: Path, **settings: float) -> ServePlan:
    return ServePlan("127.0.0.1:9876", str(folder), str(folder), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_old_days_and_commits_go(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path / "orders", tableFormat=table_format)
    old = [message(offset, storeTimestamp=NOW - datetime.timedelta(days=40)) for offset in range(6)]
    new = [message(offset, storeTimestamp=NOW) for offset in range(6, 12)]
    for first in (0, 3):
        query.run(old[first : first + 3])
        query.run(new[first : first + 3])
    where = Location(tmp_path / "orders")
    said = look_after(where, plan(tmp_path, history_seconds=0.0), keep_days=30)
    assert said.startswith("4 -> 2 files, 6 rows dropped")
    assert places(table_rows(tmp_path / "orders")) == places(new)
    assert len(open_described(where)[0].files()) == 1
    # The commits are forgotten, but not the newest batch: a replay of it is known.
    assert open_described(where)[0].last_batch("q-1") == 3
    query.run([message(12, storeTimestamp=NOW)])
    assert len(table_rows(tmp_path / "orders")) == 7


def test_a_table_that_cannot_be_looked_after_is_reported_and_tried_again_later(tmp_path: Path) -> None:
    Query(tmp_path / "orders").run([message(0)])
    (description,) = (tmp_path / "orders" / "_rocketlake" / "description").iterdir()
    description.write_text("no description")
    said: list[str] = []
    upkeep = Upkeep(plan(tmp_path, upkeep_seconds=60.0), said.append)
    assert upkeep.is_due("orders", 0.0)
    upkeep.take("orders", Location(tmp_path / "orders"), 0, 0.0)
    while not upkeep.is_idle():
        upkeep.report()
    upkeep.close()
    assert "table of topic orders: cannot be looked after: this is not a table description" in said[0]
    assert (upkeep.is_due("orders", 59.0), upkeep.is_due("orders", 60.0)) == (False, True)


def said_of(folder: Path) -> list[str]:
    """What is said when the upkeep of the table `orders` in this folder has ended."""
    said: list[str] = []
    upkeep = Upkeep(plan(folder), said.append)
    upkeep.take("orders", Location(folder / "orders"), 0, 0.0)
    while not upkeep.is_idle():
        upkeep.report()
    upkeep.close()
    return said


def test_a_damaged_data_file_is_named_and_costs_its_own_table_only(tmp_path: Path) -> None:
    query = Query(tmp_path / "orders")
    query.run([message(0)])
    query.run([message(1)])
    damaged = sorted((tmp_path / "orders").glob("storeDay=*/*.parquet"))[0]
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    (line,) = said_of(tmp_path)
    assert line.startswith("table of topic orders: cannot be looked after: a data file cannot be read")
    assert damaged.name in line
    assert not list((tmp_path / "orders" / "_rocketlake" / "staging").iterdir())


def test_what_a_library_of_a_format_raises_is_said_of_its_table(tmp_path: Path) -> None:
    Query(tmp_path / "orders", tableFormat="delta").run([message(0)])
    (entry,) = (tmp_path / "orders" / "_delta_log").glob("*0.json")
    entry.write_text("no entry")
    (line,) = said_of(tmp_path)
    assert line.startswith("table of topic orders: cannot be looked after: ") and "\n" not in line
