"""Plain commits of Delta on an object store: what they say, what they cost, when deltalake makes them instead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from rocketlake.spark.lake.tables import delta_table
from rocketlake.spark.lake.tables.delta_table import DeltaLakeTable
from rocketlake.spark.places.location import Location, location_of
from tests.faulty_s3 import FaultyS3
from tests.unit.spark.lake.conftest import Query, message, places, table_rows

Entry = list[dict[str, Any]]


def where(settings: dict[str, str], name: str) -> Location:
    return location_of(f"s3://b/{name}", settings, what="path")


def entry(table: DeltaLakeTable, version: int) -> Entry:
    data = table.place.get(table.place.path / "_delta_log" / f"{version:020d}.json")
    assert data is not None
    return [json.loads(line) for line in data.splitlines()]


def is_plain(table: DeltaLakeTable, version: int) -> bool:
    return bool(entry(table, version)[0]["commitInfo"]["engineInfo"] == "rocketlake")


def query_on(settings: dict[str, str], name: str, query: str = "q-1") -> Query:
    return Query(f"s3://b/{name}", query, tableFormat="delta", partitionBy="tags", **settings)


def opened(settings: dict[str, str], name: str) -> tuple[DeltaLakeTable, DeltaTable]:
    """Ours, and that of another program."""
    ours = DeltaLakeTable(where(settings, name))
    return ours, DeltaTable(ours.place.url(), storage_options=ours.place.library_options())


def test_a_plain_commit_says_what_deltalake_says_of_the_same_batch(settings: dict[str, str], tmp_path: Path) -> None:
    """But for times and names of attempts. On a local folder each commit is deltalake's."""
    found: list[Entry] = []
    for query in (query_on(settings, "same"), Query(tmp_path / "t", tableFormat="delta", partitionBy="tags")):
        for number in range(2):
            tasks = [[message(number * 4 + at, queue=task, tags=f"A /{at % 2}") for at in range(4)] for task in (0, 1)]
            query.run(*tasks, [message(99 + number, queue=7, tags=None)])
        place = where(settings, "same") if not found else tmp_path / "t"
        found.append(entry(DeltaLakeTable(place), 2))
    plain, theirs = ([_without_chance(action) for action in actions] for actions in found)
    assert plain[0].pop("commitInfo") == {**theirs[0].pop("commitInfo"), "engineInfo": "rocketlake"}
    assert sorted(plain, key=str) == sorted(theirs, key=str)


def _without_chance(action: dict[str, Any]) -> dict[str, Any]:
    """Without times, random names, sizes (of files with random names in them), and members that say nothing."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "*", json.dumps(action))
    ((kind, said),) = json.loads(text).items()
    chance = {"timestamp", "modificationTime", "clientVersion"}
    kept = {name: value for name, value in said.items() if name not in chance and value is not None}
    if "rocketlake" in kept:
        kept["rocketlake"] = json.loads(kept["rocketlake"])
    return {kind: kept}


def test_what_a_batch_asks_does_not_grow_with_the_log(settings: dict[str, str], server: FaultyS3) -> None:
    query = query_on(settings, "count")
    for number in range(3):
        query.run([message(number)])
    costs = []
    for number in range(3, 12):
        server.requests()
        messages = [query.task([message(number)])]
        tasks = len(server.requests())
        query.commit(messages)
        query.next_batch += 1
        costs.append((tasks, len(server.requests())))
    assert set(costs) == {(6, 5)}


def test_what_other_programs_did_is_seen(settings: dict[str, str]) -> None:
    query = query_on(settings, "others")
    query.run([message(0)])
    query.run([message(1)])
    ours, theirs = opened(settings, "others")
    assert is_plain(ours, 2)

    write_deltalake(theirs, pa.table({"tags": ["A"], "topic": ["theirs"]}), mode="append", schema_mode="merge")  # 3
    query.run([message(2)])
    assert is_plain(ours, 4)

    theirs.update_incremental()
    theirs.alter.add_columns([Field("more", "string")])  # 5
    query.run([message(3)])
    query.run([message(4)])
    assert [is_plain(ours, version) for version in (6, 7)] == [False, True]

    theirs.update_incremental()
    theirs.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})  # 8: writers must know more from here on
    query.run([message(5)])
    query.run([message(6)])
    assert [is_plain(ours, version) for version in (9, 10)] == [False, False]
    found = [row for row in table_rows(where(settings, "others")) if row["topic"] == "orders"]
    assert places(found) == places([message(number) for number in range(7)])


def test_a_version_that_another_writer_made_meanwhile_is_looked_at(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries write to one table; the second commits between what the first one reads and its put."""
    one, two = query_on(settings, "race"), query_on(settings, "race", "q-2")
    one.run([message(0)])
    two.run([message(0, queue=1)])
    one.run([message(1)])
    made = delta_table.plain_entry
    left = [message(1, queue=1), message(2, queue=1)]

    def slowly(*arguments: Any) -> bytes:
        if left:
            monkeypatch.setattr(delta_table, "plain_entry", made)
            two.run([left.pop(0)])
            monkeypatch.setattr(delta_table, "plain_entry", slowly)
        return made(*arguments)

    monkeypatch.setattr(delta_table, "plain_entry", slowly)
    one.run([message(2)])
    ours, _ = opened(settings, "race")
    assert [entry(ours, version)[-1]["txn"]["appId"] for version in (4, 5, 6)] == ["q-2", "q-2", "q-1"]
    expected = [message(number, queue=queue) for queue in (0, 1) for number in range(3)]
    assert places(table_rows(where(settings, "race"))) == places(expected)


def test_a_checkpoint_comes_each_hundred_versions_and_commits_go_on_behind_it(settings: dict[str, str]) -> None:
    query = query_on(settings, "long")
    for number in range(104):
        query.run([message(number)])
    ours, theirs = opened(settings, "long")
    assert [is_plain(ours, version) for version in (99, 100, 104)] == [False, True, True]
    assert json.loads(ours.place.get(ours.place.path / "_delta_log" / "_last_checkpoint") or b"{}")["version"] == 99
    theirs.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert places(table_rows(where(settings, "long"))) == places([message(number) for number in range(104)])
    assert ours.find("q-1", 103) is not None
