"""An Iceberg table through pyiceberg: a catalog of its own (SQLite, beside the data) decides.

Owns        batches as table properties and snapshot properties, new columns, retrying against other writers.
Must not know   the order of Spark's calls.

The newest batch of each query is a table property, because snapshots expire. pyiceberg itself would repeat a
commit that lost against another one. Here the batch must be looked up again first, so the retries of pyiceberg are off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from uuid import uuid4

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.table import FileScanTask, Table

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.description import SIDECAR, TableDescription
from rocketlake.spark.lake.partition_names import Partition, ascii_folder
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.commit_note import from_note, note
from rocketlake.spark.lake.tables.iceberg_files import (
    data_files_of,
    live_file,
    local_path,
    manifests_of,
    moment,
    sync_newest,
    uri,
)
from rocketlake.spark.lake.tables.table import NAME_PATTERN, BatchPart, Committed, DataFile
from rocketlake.spark.places.durable import make_folder, sync_written
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

__all__ = ["CATALOG", "TABLE", "IcebergLakeTable", "catalog"]

CATALOG = "rocketlake"
TABLE = "lake.rows"
_PREFIX = "rocketlake."
_QUERY = "rocketlake.query."
_RETRIES = "commit.retry.num-retries"
_TRIES = 50
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
}
"""A stream commits often: old metadata goes, small manifests are merged."""


def catalog(path: Path | str, file: str = "catalog.db") -> SqlCatalog:
    """The catalog beside the table at `path`."""
    path = Path(path)
    return SqlCatalog(CATALOG, uri=f"sqlite:///{path / SIDECAR / file}", warehouse=uri(path))


class IcebergLakeTable:
    """The table in one folder."""

    def __init__(self, where: PurePath | Location | Place) -> None:
        self.place: Place = place_of(where)
        self.path = Path(self.place.path)
        self._catalog: SqlCatalog | None = None

    def _load(self) -> Table | None:
        if self._catalog is None:
            if not (self.path / SIDECAR / "catalog.db").exists():
                return None
            self._catalog = catalog(self.path)
        try:
            table = self._catalog.load_table(TABLE)
        except NoSuchTableError:
            return None
        table.metadata.properties[_RETRIES] = "0"
        return table

    def last_batch(self, query: str) -> int | None:
        """The table property."""
        table = self._load()
        return _last(table, query) if table else None

    def find(self, query: str, batch: int) -> Committed | None:
        """Among the remembered snapshots."""
        return next((c for c in self.history(1 << 30) if (c.query, c.batch) == (query, batch)), None)

    def file_path(self, file: str, partition: Partition) -> Path:
        """The final place: no reader takes a file that no snapshot names."""
        path = self._place(file, partition)
        make_folder(PosixFiles(), path.parent)
        return path

    def _place(self, file: str, partition: Partition) -> Path:
        # Iceberg takes the values from the file.
        return self.path / "data" / ascii_folder(partition) / file

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """One transaction: files, snapshot properties, the query's property."""
        for _ in range(_TRIES):
            table = self._ready(description)
            last = _last(table, part.query)
            if last is not None and last >= part.batch:
                return False
            places = [self._place(file.name, file.partition) for file in part.files]
            paths = [uri(place) for place in places]
            for folder in {place.parent for place in places}:
                PosixFiles().sync_dir(folder)  # tasks sync their files, not the names
            try:
                with table.transaction() as transaction:
                    transaction.set_properties({_QUERY + part.query: str(part.batch)})
                    said = {_PREFIX + name: text for name, text in note(part).items()}
                    transaction.add_files(paths, snapshot_properties=said, check_duplicate_files=False)
            except CommitFailedException:
                continue
            except FileNotFoundError as error:
                raise _missing(error) from error
            sync_newest(table)
            return True
        raise self._beaten()

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """One overwrite snapshot."""
        for _ in range(_TRIES):
            table = self._ready(description)
            live = {task.file.file_path: task.file for task in self._plan(table)}
            if any(old.name not in live for old in olds):
                return False
            try:
                with table.transaction() as transaction:
                    added = iter([uri(self._place(file.name, file.partition)) for file in news])
                    metadata = transaction.table_metadata
                    made = list(parquet_files_to_data_files(io=table.io, table_metadata=metadata, file_paths=added))
                    said = {_PREFIX + "operation": operation}
                    with transaction.update_snapshot(snapshot_properties=said).overwrite() as overwrite:
                        for old in olds:
                            overwrite.delete_data_file(live[old.name])
                        for file in made:
                            overwrite.append_data_file(file)
            except CommitFailedException:
                continue
            except FileNotFoundError as error:
                raise _missing(error) from error
            sync_newest(table)
            return True
        raise self._beaten()

    def _ready(self, description: TableDescription) -> Table:
        """The table with all columns; made if missing."""
        wanted = arrow(description.schema)
        while (table := self._load()) is None:
            self._create(description)
        missing = [name for name in wanted.names if name not in table.schema().column_names]
        if missing:
            try:
                with table.update_schema() as update:
                    update.union_by_name(wanted)
            except CommitFailedException:
                pass  # another writer was quicker; columns still missing come with the next try
            return self._ready(description)
        return table

    def _create(self, description: TableDescription) -> None:
        if not (self.path / SIDECAR / "catalog.db").exists():
            self._create_catalog()
        self._catalog = catalog(self.path)
        try:
            with (
                self._catalog.create_table_transaction(
                    TABLE, schema=arrow(description.schema), location=uri(self.path)
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                for name in description.partition_by:
                    spec.add_identity(name)
        except (TableAlreadyExistsError, CommitFailedException):
            return

    def _create_catalog(self) -> None:
        # pyiceberg makes its tables one by one: two writers at once would collide, a killed one would leave a part.
        folder, fresh = self.path / SIDECAR, f".catalog-{uuid4().hex}.db"
        make_folder(PosixFiles(), folder)
        made = catalog(self.path, fresh)
        made.create_namespace_if_not_exists(TABLE.split(".")[0])
        made.close()
        sync_written([folder / fresh])
        with suppress(FileExistsError):
            PosixFiles().link(folder / fresh, folder / "catalog.db")
        (folder / fresh).unlink()
        PosixFiles().sync_dir(folder)

    def recover(self) -> None:
        """Nothing to finish: a commit has no later steps."""

    def forget_files(self, part: BatchPart) -> None:
        """Delete the files; no snapshot ever named them."""
        for file in part.files:
            self._place(file.name, file.partition).unlink(missing_ok=True)

    def files(self) -> list[DataFile]:
        """Of the newest snapshot."""
        table = self._load()
        if table is None:
            return []
        kinds = [(field.name, table.schema().find_type(field.source_id)) for field in table.spec().fields]
        return [live_file(task.file, kinds) for task in self._plan(table)]

    def _plan(self, table: Table) -> list[FileScanTask]:
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise StoreError(
                "another program deleted rows by delete files, which are not read here",
                path=str(self.path),
                hint="read and compact this table with that program",
            )
        return tasks

    def read_path(self, file: DataFile) -> Path:
        """The path in the snapshot."""
        return local_path(file.name)

    def history(self, limit: int) -> list[Committed]:
        """Snapshots, newest first."""
        table = self._load()
        if table is None:
            return []
        snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
        found: list[Committed] = []
        for snapshot in snapshots[:limit]:
            extra = snapshot.summary.additional_properties if snapshot.summary else {}
            said = {key.removeprefix(_PREFIX): text for key, text in extra.items() if key.startswith(_PREFIX)}
            operation = said.get("operation") or (snapshot.summary.operation.value if snapshot.summary else "")
            found.append(from_note(said, snapshot.sequence_number or 0, snapshot.timestamp_ms, operation))
        return found

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Old snapshots, then the files that only they named."""
        for _ in range(_TRIES):
            table = self._load()
            if table is None:
                return 0
            current = table.metadata.current_snapshot_id
            old = [s for s in table.metadata.snapshots if s.timestamp_ms < before_ms and s.snapshot_id != current]
            kept = [s for s in table.metadata.snapshots if s not in old]
            gone = data_files_of(table, old) - data_files_of(table, kept)
            manifests = manifests_of(table, old) - manifests_of(table, kept)
            if dry_run or not old:
                return len(gone)
            try:
                table.maintenance.expire_snapshots().older_than(moment(before_ms)).commit()
            except CommitFailedException:
                continue
            for place in sorted(gone | manifests):
                progress(place)
                local_path(place).unlink(missing_ok=True)
            return len(gone)
        raise self._beaten()

    def orphans(self) -> list[PurePath]:
        """Files with our names that no remembered snapshot names."""
        table = self._load()
        named = data_files_of(table, table.metadata.snapshots) if table else set()
        places = {local_path(place) for place in named}
        found = self.path.rglob("*.parquet")
        return [path for path in found if NAME_PATTERN.fullmatch(path.name) and path not in places]

    def _beaten(self) -> StoreError:
        return StoreError(
            f"others changed this table {_TRIES} times while this commit was tried",
            path=str(self.path),
            hint="let fewer writers write to one table, or larger batches",
        )


def _last(table: Table, query: str) -> int | None:
    text = table.properties.get(_QUERY + query)
    return None if text is None else int(text)


def _missing(error: FileNotFoundError) -> StoreError:
    return StoreError(
        "a file that a task wrote is not there for the driver",
        path=str(error),
        hint="give tasks and driver the same folder; clean it with a --grace longer than a batch",
    )
