"""An Iceberg table through pyiceberg: its catalog decides.

Owns        batches as table properties and snapshot properties, new columns, retrying against other writers.
Must not know   the order of Spark's calls.

The newest batch of each query is a table property, because snapshots expire. pyiceberg itself would repeat a
commit that lost against another one. Here the batch must be looked up again first, so the retries of pyiceberg are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePath
from typing import TypeVar
from uuid import uuid4

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot

from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.partition_names import Partition, ascii_folder
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.commit_note import from_note, note
from rocketlake.spark.lake.tables.iceberg_catalog import CATALOG, TABLE, catalog, home_of, path_of, uri
from rocketlake.spark.lake.tables.iceberg_files import (
    data_files_of,
    live_file,
    manifests_of,
    moment,
    newest_files,
    sync_newest,
)
from rocketlake.spark.lake.tables.silence import Silence, asked
from rocketlake.spark.lake.tables.table import (
    NAME_PATTERN,
    UNNAMED,
    UNNAMED_MAX,
    BatchPart,
    Committed,
    DataFile,
    another_upsert,
    is_overtaken,
)
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

__all__ = ["CATALOG", "TABLE", "IcebergLakeTable", "catalog"]

Answer = TypeVar("Answer")
Snapshots = Sequence[Snapshot]
FilesOf = Callable[[Table, Snapshots], set[str]]

_PREFIX = "rocketlake."
_QUERY = "rocketlake.query."
_RETRIES = "commit.retry.num-retries"
_TRIES = 50


class IcebergLakeTable:
    """The table in one folder."""

    def __init__(self, where: PurePath | Location | Place) -> None:
        self.place: Place = place_of(where)
        self._home = home_of(self.place)

    def _load(self) -> Table | None:
        table = self._asked(self._home.load)
        if table is not None:
            table.metadata.properties[_RETRIES] = "0"
        return table

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        return asked(self.place.url(), self._home.silent, ask)

    def last_batch(self, query: str) -> int | None:
        """The table property."""
        table = self._load()
        return _last(table, query) if table else None

    def find(self, query: str, batch: int) -> Committed | None:
        """Among the remembered snapshots."""
        return next((c for c in self.history(1 << 30) if (c.query, c.batch) == (query, batch)), None)

    def file_path(self, file: str, partition: Partition) -> PurePath:
        """The final place: no reader takes a file that no snapshot names."""
        path = self._place(file, partition)
        self.place.make_folder(path.parent)
        return path

    def _place(self, file: str, partition: Partition) -> PurePath:
        # Iceberg takes the values from the file.
        return self.place.path / "data" / ascii_folder(partition) / file

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """One transaction: files, snapshot properties, the query's property."""
        silence = Silence(self.place.url(), self._home.silent)
        for _ in range(_TRIES):
            table = self._ready(description)
            last = _last(table, part.query)
            if last is not None and last >= part.batch:
                return False
            places = [self._place(file.name, file.partition) for file in part.files]
            paths = [uri(self.place, place) for place in places]
            self._require(part.files, places)
            self.place.keep_names({place.parent for place in places})
            live = self._live(table) if part.rule else {}
            if is_overtaken(part, live):
                raise another_upsert(self.place.url())
            with silence, self._lost_races():
                with table.transaction() as transaction:
                    transaction.set_properties({_QUERY + part.query: str(part.batch)})
                    if gone := _forgotten(table):
                        transaction.remove_properties(*gone)
                    said = {_PREFIX + name: text for name, text in note(part).items()}
                    if part.replaced:
                        _overwrite(transaction, table, [live[old.name] for old in part.replaced], paths, said)
                    else:
                        transaction.add_files(paths, snapshot_properties=said, check_duplicate_files=False)
                self._sync(table)
                return True
        raise self._beaten()

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """One overwrite snapshot."""
        change = uuid4().hex
        silence = Silence(self.place.url(), self._home.silent)
        for _ in range(_TRIES):
            table = self._ready(description)
            if _has_change(table, change):
                return True  # the catalog made the commit, and its answer was lost
            live = self._live(table)
            if any(old.name not in live for old in olds):
                return False
            paths = [uri(self.place, self._place(file.name, file.partition)) for file in news]
            with silence, self._lost_races():
                with table.transaction() as transaction:
                    said = {_PREFIX + "operation": operation, _PREFIX + "change": change}
                    _overwrite(transaction, table, [live[old.name] for old in olds], paths, said)
                self._sync(table)
                return True
        raise self._beaten()

    def _ready(self, description: TableDescription) -> Table:
        """The table with all columns; made if missing."""
        wanted = arrow(description.schema)
        silence = Silence(self.place.url(), self._home.silent)
        for _ in range(_TRIES):
            table = self._load()
            if table is None:
                with silence:
                    self._home.create(description)
                continue
            if all(name in table.schema().column_names for name in wanted.names):
                return table
            # Another writer may be quicker; columns still missing come with the next try.
            with silence, self._lost_races(), table.update_schema() as update:
                update.union_by_name(wanted)
        raise self._beaten()

    @contextmanager
    def _lost_races(self) -> Iterator[None]:
        """Passes over a commit that lost against another one: the caller looks at the table again."""
        try:
            yield
        except CommitFailedException:
            return
        except FileNotFoundError as error:
            raise _missing(str(error)) from error

    def _require(self, files: Sequence[DataFile], places: Sequence[PurePath]) -> None:
        for place, file, size in zip(places, files, self.place.sizes(places), strict=True):
            if size != file.bytes:
                raise _missing(self.place.url(place))

    def _sync(self, table: Table) -> None:
        if self.place.files is not None:
            sync_newest(table)

    def recover(self) -> None:
        """Nothing to finish: a commit has no later steps."""

    def forget_files(self, part: BatchPart) -> None:
        """Delete the files; no snapshot ever named them."""
        self.place.delete(self._place(file.name, file.partition) for file in part.files)

    def files(self) -> list[DataFile]:
        """Of the newest snapshot."""
        table = self._load()
        if table is None:
            return []
        kinds = [(field.name, table.schema().find_type(field.source_id)) for field in table.spec().fields]
        return [live_file(file, kinds) for file in self._live(table).values()]

    def _live(self, table: Table) -> dict[str, IcebergFile]:
        files, has_deletes = self._asked(lambda: newest_files(table))
        if has_deletes:
            raise StoreError(
                "another program deleted rows by delete files, which are not read here",
                path=self.place.url(),
                hint="read and compact this table with that program",
            )
        return files

    def read_path(self, file: DataFile) -> PurePath:
        """The path in the snapshot."""
        return path_of(self.place, file.name)

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
        gone: set[str] = set()
        manifests: set[str] = set()
        silence = Silence(self.place.url(), self._home.silent)
        for _ in range(_TRIES):
            table = self._load()
            if table is None:
                return 0
            current = table.metadata.current_snapshot_id
            old = [s for s in table.metadata.snapshots if s.timestamp_ms < before_ms and s.snapshot_id != current]
            kept = [s for s in table.metadata.snapshots if s not in old]
            gone |= self._only_in(old, kept, data_files_of, table)
            manifests |= self._only_in(old, kept, manifests_of, table)
            if dry_run:
                return len(gone)
            if old:
                with silence, self._lost_races():
                    table.maintenance.expire_snapshots().older_than(moment(before_ms)).commit()
                    old = []
            if old:
                continue
            for place in sorted(gone | manifests):
                progress(place)
                self.place.delete([path_of(self.place, place)])
            return len(gone)
        raise self._beaten()

    def _only_in(self, old: Snapshots, kept: Snapshots, files_of: FilesOf, table: Table) -> set[str]:
        return self._asked(lambda: files_of(table, old) - files_of(table, kept))

    def orphans(self) -> list[PurePath]:
        """Files with our names that no remembered snapshot names."""
        table = self._load()
        named = self._only_in(table.metadata.snapshots, [], data_files_of, table) if table else set()
        places = {path_of(self.place, place) for place in named}
        found = self.place.walk(".parquet")
        return [path for path in found if NAME_PATTERN.fullmatch(path.name) and path not in places]

    def _beaten(self) -> StoreError:
        return StoreError(
            f"others changed this table {_TRIES} times while this commit was tried",
            path=self.place.url(),
            hint="let fewer writers write to one table, or larger batches",
        )


def _overwrite(
    transaction: Transaction, table: Table, olds: Sequence[IcebergFile], paths: Sequence[str], said: dict[str, str]
) -> None:
    metadata = transaction.table_metadata
    made = list(parquet_files_to_data_files(io=table.io, table_metadata=metadata, file_paths=iter(paths)))
    with transaction.update_snapshot(snapshot_properties=said).overwrite() as overwrite:
        for old in olds:
            overwrite.delete_data_file(old)
        for file in made:
            overwrite.append_data_file(file)


def _last(table: Table, query: str) -> int | None:
    text = table.properties.get(_QUERY + query)
    return None if text is None else int(text)


def _forgotten(table: Table) -> list[str]:
    """The properties of batch writes that are never repeated, but for the newest ones: each commit writes them all."""
    known = [name for name in table.properties if name.startswith(_QUERY + UNNAMED)]
    if len(known) <= UNNAMED_MAX:
        return []
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
    names = (each.summary.additional_properties.get(_PREFIX + "query", "") for each in snapshots if each.summary)
    newest = set(islice((_QUERY + name for name in names if name.startswith(UNNAMED)), UNNAMED_MAX))
    return [name for name in known if name not in newest]


def _has_change(table: Table, change: str) -> bool:
    summaries = (snapshot.summary for snapshot in table.metadata.snapshots)
    return any(each and each.additional_properties.get(_PREFIX + "change") == change for each in summaries)


def _missing(path: str) -> StoreError:
    return StoreError(
        "a file that a task wrote is not there for the driver",
        path=path,
        hint="give tasks and driver the same folder; clean it with a --grace longer than a batch",
    )
