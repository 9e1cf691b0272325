"""A Delta table through deltalake: the Delta log decides, files lie where tasks wrote them.

Owns        batches as app transactions and commit metadata, new columns, retrying against other writers.
Must not know   the order of Spark's calls, what the newest entries say (delta_tail.py).

Delta accepts the same app transaction twice, one after the other, so a commit looks it up first. Delta refuses two at
once. An object store may make a commit and lose the answer: then deltalake says that the commit failed, or names an
error of the line. So after each failure the table is read anew, and what it has decides: the app transaction of a
batch, the name of a change that maintenance made.

On an object store a batch that only adds files is committed by one put, when the newest entries of the log say all that
it must know. Everything else, and every hundredth version, with which deltalake makes a checkpoint, is deltalake's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.spark.lake.description import SIDECAR, TableDescription
from rocketlake.spark.lake.partition_names import Partition
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.commit_note import from_note, note
from rocketlake.spark.lake.tables.delta_tail import (
    DESCRIBED,
    LOG,
    NOTE,
    add_path,
    entry_path,
    plain_entry,
    read_tail,
    stats_of,
)
from rocketlake.spark.lake.tables.silence import Kinds, Silence, asked
from rocketlake.spark.lake.tables.table import (
    NAME_PATTERN,
    BatchPart,
    Committed,
    DataFile,
    another_upsert,
    is_overtaken,
)
from rocketlake.spark.places.durable import sync_written
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

__all__ = ["DeltaLakeTable"]

Answer = TypeVar("Answer")

_log = get_logger(__name__)
_TRIES = 20
_HOUR_MS = 3_600_000
_PLAIN_PROTOCOL = (1, 2)
"""Reader and writer version of a table whose writers must know of appendOnly and invariants only."""
_CHECKPOINT_EVERY = 100
"""deltalake makes a checkpoint with version 99, 199, ..."""
_ONCE = CommitProperties(max_commit_retries=0)
"""deltalake would repeat a change that has no name after a lost answer, and make it twice."""
_KEEP_ENTRIES = PostCommitHookProperties(cleanup_expired_logs=False)
"""deltalake would delete old entries right behind a checkpoint that a power cut can take."""


class DeltaLakeTable:
    """The table in one folder."""

    def __init__(self, where: PurePath | Location | Place) -> None:
        self.place: Place = place_of(where)
        self._is_stored = self.place.files is None
        self._options = self.place.library_options()
        # deltalake has many names for a lost answer, and one of them for a refusal (409) of a new table.
        self._silent: Kinds = (OSError, DeltaError) if self._is_stored else ()

    def _load(self) -> DeltaTable | None:
        try:
            return self._asked(lambda: DeltaTable(self.place.url(), storage_options=self._options))
        except TableNotFoundError:
            return None

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        return asked(self.place.url(), self._silent[:1], ask)

    def last_batch(self, query: str) -> int | None:
        """The app transaction's version."""
        tail = read_tail(self.place) if self._is_stored else None
        if tail is not None and (last := tail.last_batch(query)) is not None:
            return last
        table = self._load()
        return self._last(table, query) if table else None

    def _last(self, table: DeltaTable, query: str) -> int | None:
        return self._asked(lambda: table.transaction_version(query))  # it is read from the log only now

    def find(self, query: str, batch: int) -> Committed | None:
        """In the remembered history."""
        return next((c for c in self.history(1 << 30) if (c.query, c.batch) == (query, batch)), None)

    def file_path(self, file: str, partition: Partition) -> PurePath:
        """The final place: no reader takes a file that the log does not name."""
        path = self.place.path / add_path(DataFile(file, partition, 0, 0))
        self.place.make_folder(path.parent)
        return path

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """One commit with the app transaction (query, batch)."""
        if self._is_stored and not part.rule and (is_made := self._append_plain(part, description)) is not None:
            return is_made
        silence = Silence(self.place.url(), self._silent)
        now = time.time_ns() // 1_000_000
        for _ in range(_TRIES):
            table = self._ready(description)
            last = self._last(table, part.query)
            if last is not None and last >= part.batch:
                return False
            self._require(part.files)
            if part.rule and is_overtaken(part, [file.name for file in self._files(table)]):
                raise another_upsert(self.place.url())
            actions = [_remove(file, now) for file in part.replaced] + [_add(file) for file in part.files]
            properties = CommitProperties(
                custom_metadata={NOTE: json.dumps(note(part) | _described(table, description))},
                app_transactions=[Transaction(part.query, part.batch)],
                # deltalake commits again over what others have added; an upsert must be laid over that first.
                max_commit_retries=0 if part.rule else 5,
            )
            with silence:
                if self._commit(table, actions, description, properties):
                    return True
        raise self._beaten()

    def _append_plain(self, part: BatchPart, description: TableDescription) -> bool | None:
        """`append` by one put; None if that is not for this batch, or not for this version.

        The put makes the version behind those that were looked at, or fails: what they say is true when it is made.
        """
        with ThreadPoolExecutor(1) as beside:
            found = beside.submit(self._require, part.files)
            tail = read_tail(self.place)
            found.result()
        for _ in range(_TRIES):
            last = tail.last_batch(part.query) if tail is not None else None
            if tail is None or last is None or (tail.version + 2) % _CHECKPOINT_EVERY == 0:
                return None
            if last >= part.batch:
                return False
            if tail.described < description.version:
                return None
            if self.place.put_if_absent(entry_path(self.place, tail.version + 1), plain_entry(part, description)):
                return True
            tail = read_tail(self.place)
        raise self._beaten()

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """Remove and add in one commit; Delta refuses it if another commit removed one of the files."""
        changes = operation != "replace"
        now = time.time_ns() // 1_000_000
        change, begun_at = uuid4().hex, -1
        silence = Silence(self.place.url(), self._silent)
        for _ in range(_TRIES):
            table = self._ready(description)
            if begun_at < 0:
                begun_at = table.version()
            elif self._has_change(table, change, begun_at):
                return True  # the store made the commit, and its answer was lost
            live = {file.name for file in self._files(table)}
            if any(old.name not in live for old in olds):
                return False
            actions: list[Any] = [_remove(old, now, changes=changes) for old in olds]
            actions += [_add(file, changes=changes) for file in news]
            properties = CommitProperties(
                custom_metadata={NOTE: json.dumps({"operation": operation, "change": change})}, max_commit_retries=0
            )
            self._require(news)
            with silence:
                if self._commit(table, actions, description, properties):
                    return True
        raise self._beaten()

    def _has_change(self, table: DeltaTable, change: str, version: int) -> bool:
        """True if a commit after this version is maintenance's of that name."""
        newer = table.version() - version
        commits = self._asked(lambda: table.history(newer)) if newer else []
        return any(json.loads(commit.get(NOTE) or "{}").get("change") == change for commit in commits)

    def _ready(self, description: TableDescription) -> DeltaTable:
        """The table with all columns; made if missing."""
        wanted = arrow(description.schema)
        silence = Silence(self.place.url(), self._silent)
        for _ in range(_TRIES):
            table = self._load()
            if table is None:
                with silence:
                    self._create(Schema.from_arrow(wanted), list(description.partition_by))
                continue
            missing = _missing(wanted, table)
            if not missing:
                return table
            with silence:
                self._add_columns(table, wanted, missing)
        raise self._beaten()

    def _create(self, schema: Schema, partition_by: list[str]) -> None:
        try:
            DeltaTable.create(
                self.place.url(),
                schema=schema,
                mode="ignore",
                partition_by=partition_by,
                storage_options=self._options,
                commit_properties=_ONCE,
            )
        except DeltaError:
            if self._load() is None:  # else another writer was quicker, or an answer was lost
                raise

    def _add_columns(self, table: DeltaTable, wanted: pa.Schema, missing: list[Field]) -> None:
        try:
            hooks = None if self._is_stored else _KEEP_ENTRIES
            table.alter.add_columns(missing, commit_properties=_ONCE, post_commithook_properties=hooks)
        except DeltaError:
            newest = self._load()  # another writer was quicker, or an answer was lost, or the table is really broken
            if newest is None or _missing(wanted, newest):
                raise

    def _commit(
        self, table: DeltaTable, actions: list[Any], description: TableDescription, properties: CommitProperties
    ) -> bool:
        adds = (action.path for action in actions if isinstance(action, AddAction))
        self.place.keep_names({(self.place.path / path).parent for path in adds})
        stood_on = table.version()
        try:
            table.create_write_transaction(
                actions,
                "append",
                Schema.from_arrow(arrow(description.schema)),
                list(description.partition_by),
                commit_properties=properties,
                post_commithook_properties=None if self._is_stored else _KEEP_ENTRIES,
            )
        except CommitFailedError:
            return False
        if self._sync_log(stood_on):
            try:
                table.cleanup_metadata()
            except (DeltaError, OSError) as error:  # the commit is made
                _log.warning("Delta table %s: old entries of its log are left: %s", self.place.url(), error)
        return True

    def _sync_log(self, since: int) -> bool:
        """On a disk: what the log has from this version on is safe on return; True if there is a checkpoint among it.

        deltalake does not sync it, Spark forgets a batch once its commit returns, and entries that a checkpoint makes
        unneeded are deleted.
        """
        if self._is_stored:
            return False
        log, first = Path(self.place.path) / LOG, entry_path(self.place, since).stem
        newest = [path for path in log.iterdir() if path.name[0].isdigit() and path.name >= first]
        sync_written([*newest, log / "_last_checkpoint"])
        return any(".checkpoint." in path.name for path in newest)

    def _require(self, files: Sequence[DataFile]) -> None:
        paths = [self.place.path / add_path(file) for file in files]
        for path, file, size in zip(paths, files, self.place.sizes(paths), strict=True):
            if size != file.bytes:
                raise StoreError(
                    "a file that a task wrote is not there for the driver",
                    path=self.place.url(path),
                    hint="give tasks and driver the same folder; clean it with a --grace longer than a batch",
                )

    def recover(self) -> None:
        """Nothing to finish: a commit has no later steps."""

    def forget_files(self, part: BatchPart) -> None:
        """Delete the files; the log never named them."""
        self.place.delete(self.place.path / add_path(file) for file in part.files)

    def files(self) -> list[DataFile]:
        """From the log."""
        table = self._load()
        return self._files(table) if table else []

    def _files(self, table: DeltaTable) -> list[DataFile]:
        if "deletionVectors" in (table.protocol().reader_features or []):
            raise StoreError(
                "another program switched deletion vectors on, which are not read here",
                path=self.place.url(),
                hint="read and compact this table with that program",
            )
        columns = table.metadata().partition_columns
        found: list[DataFile] = []
        for row in self._asked(lambda: _rows(table)):
            values = row.get("partition") or {}
            partition = tuple((name, _text(values.get(name))) for name in columns)
            found.append(DataFile(row["path"], partition, row["num_records"] or 0, row["size_bytes"]))
        return found

    def read_path(self, file: DataFile) -> PurePath:
        """Under the table's folder."""
        return self.place.path / unquote(file.name)

    def history(self, limit: int) -> list[Committed]:
        """Commits, with our notes and without."""
        table = self._load()
        if table is None:
            return []
        found: list[Committed] = []
        for commit in self._asked(lambda: table.history(limit)):
            said = json.loads(commit.get(NOTE) or "{}")
            operation = said.get("operation") or str(commit.get("operation", "")).lower()
            found.append(from_note(said, int(commit["version"]), int(commit["timestamp"]), operation))
        return found

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Files that commits removed before this time, then the log entries that checkpoints made unneeded."""
        table = self._load()
        if table is None:
            return 0
        hours = max(0, (time.time_ns() // 1_000_000 - before_ms) // _HOUR_MS)
        gone = self._asked(lambda: table.vacuum(hours, dry_run=True, enforce_retention_duration=False))
        if not dry_run and gone:
            self._asked(lambda: table.vacuum(hours, dry_run=False, enforce_retention_duration=False))
        if not dry_run:
            self._asked(table.create_checkpoint)
            self._sync_log(table.version())
            self._asked(table.cleanup_metadata)
        return len(gone)

    def orphans(self) -> list[PurePath]:
        """Files with our names that are neither live nor removed by a remembered commit."""
        table = self._load()
        if table is None:
            return [path for path in self.place.walk(".parquet") if NAME_PATTERN.fullmatch(path.name)]
        named = {unquote(file.name) for file in self._files(table)}
        removed = self._asked(lambda: table.vacuum(0, dry_run=True, enforce_retention_duration=False))
        named |= {unquote(path) for path in removed}
        found = ((path, path.relative_to(self.place.path)) for path in self.place.walk(".parquet"))
        return [
            path
            for path, place in found
            if SIDECAR not in place.parts and NAME_PATTERN.fullmatch(path.name) and str(place) not in named
        ]

    def _beaten(self) -> StoreError:
        return StoreError(
            f"others changed this table {_TRIES} times while this commit was tried",
            path=self.place.url(),
            hint="let fewer writers write to one table, or larger batches",
        )


def _missing(wanted: pa.Schema, table: DeltaTable) -> list[Field]:
    there = {field.name for field in table.schema().fields}
    return [Field.from_arrow(field) for field in wanted if field.name not in there]


def _described(table: DeltaTable, description: TableDescription) -> dict[str, str]:
    """For the note of a commit: plain commits may follow it."""
    protocol = table.protocol()
    is_plain = (protocol.min_reader_version, protocol.min_writer_version) == _PLAIN_PROTOCOL
    if not is_plain or "delta.invariants" in table.schema().to_json():
        return {}
    return {DESCRIBED: str(description.version)}


def _add(file: DataFile, *, changes: bool = True) -> AddAction:
    now = time.time_ns() // 1_000_000
    return AddAction(add_path(file), file.bytes, dict(file.partition), now, changes, stats_of(file))


def _remove(file: DataFile, now: int, *, changes: bool = True) -> RemoveAction:
    return RemoveAction(file.name, changes, now, file.bytes, dict(file.partition))


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table.get_add_actions()).to_pylist()
    return rows


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return None if value is None else str(value)
