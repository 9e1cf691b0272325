"""The log of a Delta table on a disk: what is safe when, and commits of others in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.messages import parts_by_table
from rocketlake.spark.lake.tables.delta_table import DeltaLakeTable
from rocketlake.spark.lake.upserts.on_driver import with_changes
from rocketlake.spark.places.local import LocalPlace
from tests.unit.spark.lake.conftest import Query, message, places, table_rows

DAYS_40 = 40 * 86_400


def entries(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


def age(table: Path) -> None:
    """As if the entries were older than Delta keeps them."""
    for entry in (table / "_delta_log").glob("*.json"):
        os.utime(entry, (time.time() - DAYS_40,) * 2)


class Syncs:
    """The files that were synced; for a checkpoint how many entries the log had at that moment."""

    def __init__(self, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.checkpoints: list[int] = []
        plain = os.fsync

        def fsync(descriptor: int) -> None:
            name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
            self.names.append(name)
            if name.endswith(".checkpoint.parquet"):
                self.checkpoints.append(entries(table))
            plain(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)


def test_expire_deletes_no_entry_before_its_checkpoint_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(tmp_path / "t", tableFormat="delta")
    for offset in range(3):
        query.run([message(offset)])
    age(tmp_path / "t")
    before, syncs = entries(tmp_path / "t"), Syncs(tmp_path / "t", monkeypatch)
    DeltaLakeTable(tmp_path / "t").expire(0, dry_run=False, progress=lambda _: None)
    assert syncs.checkpoints == [before] and entries(tmp_path / "t") < before
    assert places(table_rows(tmp_path / "t")) == [("orders", 0, offset) for offset in range(3)]


def test_a_commit_that_makes_a_checkpoint_deletes_no_entry_before_it_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "t", tableFormat="delta")
    query.run([message(0)])
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.checkpointInterval": "4"})
    query.run([message(1)])
    age(tmp_path / "t")
    before, syncs = entries(tmp_path / "t"), Syncs(tmp_path / "t", monkeypatch)
    for offset in range(2, 7):
        query.run([message(offset)])
    assert syncs.checkpoints and syncs.checkpoints[0] > before
    assert entries(tmp_path / "t") < before + 5
    assert places(table_rows(tmp_path / "t")) == [("orders", 0, offset) for offset in range(7)]


def test_a_commit_holds_though_old_entries_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another writer may delete the same ones, and a folder may forbid it."""

    def refused(_table: DeltaTable) -> None:
        raise DeltaError("no such entry")

    query = Query(tmp_path / "t", tableFormat="delta")
    query.run([message(0)])
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.checkpointInterval": "2"})
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", refused)
    for offset in range(1, 4):
        query.run([message(offset)])
    assert "old entries of its log are left: no such entry" in caplog.text
    assert places(table_rows(tmp_path / "t")) == [("orders", 0, offset) for offset in range(4)]


class Between(LocalPlace):
    """A place in which something happens between the look of a commit at its table and the commit itself."""

    def __init__(self, path: Path, happens: list[Callable[[], object]]) -> None:
        super().__init__(path)
        self._happens = happens

    def keep_names(self, folders: Iterable[PurePath]) -> None:
        super().keep_names(folders)
        if self._happens:
            self._happens.pop()()


def test_no_upsert_is_laid_over_a_bucket_that_another_made_meanwhile(tmp_path: Path) -> None:
    settings = {"tableFormat": "delta", "mergeKeys": "tags", "versionColumn": "queueOffset", "mergeBuckets": "1"}
    first, other = Query(tmp_path / "t", **settings), Query(tmp_path / "t", query="q-2", **settings)
    rows = [message(0)]
    ((_, description, part),) = parts_by_table([first.task(rows)], 0)
    assert part.rule is not None
    whole = with_changes(DeltaLakeTable(tmp_path / "t"), part, part.rule, description)
    table = DeltaLakeTable(Between(tmp_path / "t", [lambda: other.run(rows)]))
    with pytest.raises(StoreError, match="another program changed this table"):
        table.append(whole, description)
    assert places(table_rows(tmp_path / "t")) == [("orders", 0, 0)]
