"""Files of an Iceberg table: those that snapshots name, their paths, syncing them.

Owns        URIs and local paths, partition values as text.
Must not know   commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.types import DateType

from rocketlake.spark.lake.tables.table import DataFile
from rocketlake.spark.places.durable import sync_written

__all__ = ["data_files_of", "live_file", "manifests_of", "moment", "newest_files", "sync_newest"]


def sync_newest(table: Table) -> None:
    """Sync the files of the newest commit; they survive a power cut on return."""
    # pyiceberg does not sync its files, and Spark forgets the batch once this returns.
    snapshot = table.metadata.current_snapshot()
    written = [table.metadata_location]
    if snapshot is not None:
        made = (m.manifest_path for m in snapshot.manifests(table.io) if m.added_snapshot_id == snapshot.snapshot_id)
        written += [snapshot.manifest_list, *made]
    sync_written(_local_path(place) for place in written)


def data_files_of(table: Table, snapshots: Sequence[Any]) -> set[str]:
    """URIs of all data files that these snapshots name."""
    places: set[str] = set()
    for snapshot in snapshots:
        for manifest in snapshot.manifests(table.io):
            places.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return places


def newest_files(table: Table) -> tuple[dict[str, IcebergFile], bool]:
    """The files of the newest snapshot by URI, and whether another program deleted rows of them by delete files."""
    # pyiceberg's plan of a scan leaves out files without rows.
    snapshot = table.metadata.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    entries = (entry for manifest in data for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True))
    return {entry.data_file.file_path: entry.data_file for entry in entries}, len(data) < len(manifests)


def manifests_of(table: Table, snapshots: Sequence[Any]) -> set[str]:
    """URIs of their manifests and manifest lists."""
    lists = {snapshot.manifest_list for snapshot in snapshots}
    return lists | {manifest.manifest_path for snapshot in snapshots for manifest in snapshot.manifests(table.io)}


def moment(ms: int) -> datetime:
    """A time in epoch milliseconds, in the form for pyiceberg."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


def live_file(file: IcebergFile, kinds: Sequence[tuple[str, Any]]) -> DataFile:
    """One of ours; `kinds` are the partition columns with their types."""
    partition = tuple((name, _text(file.partition[place], kind)) for place, (name, kind) in enumerate(kinds))
    return DataFile(file.file_path, partition, file.record_count, file.file_size_in_bytes)


def _text(value: Any, kind: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(kind, DateType) and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    return str(value)


def _local_path(place: str) -> Path:
    """The path of a `file://` uri."""
    return Path(place.removeprefix("file://"))
