"""The log of a Delta table on a disk: nothing of it is deleted before what takes its place is safe."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rocketlake.spark.lake.tables.delta_table import DeltaLakeTable
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
