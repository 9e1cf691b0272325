"""Where the name of an Iceberg table is kept: in a file beside the data, or in a catalog of many tables.

Owns        opening catalogs, making a table, the errors of each kind that say nothing.
Must not know   batches, snapshots.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Protocol
from uuid import uuid4

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.catalogs import catalog_properties, namespace_of
from rocketlake.spark.lake.description import SIDECAR, TableDescription
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.silence import Kinds
from rocketlake.spark.places.durable import make_folder, sync_written
from rocketlake.spark.places.place import Place

__all__ = ["CATALOG", "TABLE", "Home", "catalog", "home_of", "path_of", "uri"]

CATALOG = "rocketlake"
TABLE = "lake.rows"
_REQUEST_SECONDS_MAX = 60
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
}
"""A stream commits often: old metadata goes, small manifests are merged."""


def catalog(path: Path | str, file: str = "catalog.db") -> SqlCatalog:
    """The catalog beside the table at `path`."""
    path = Path(path)
    return SqlCatalog(CATALOG, uri=f"sqlite:///{path / SIDECAR / file}", warehouse=f"file://{path}")


def uri(place: Place, path: PurePath) -> str:
    """`file://` and the path, or the url of the store."""
    # Not Path.as_uri: pyiceberg takes the escaped text for the name.
    return f"file://{path}" if place.files is not None else place.url(path)


def path_of(place: Place, text: str) -> PurePath:
    """The path of such a uri."""
    rest = text.partition("://")[2]
    return Path(rest) if place.files is not None else PurePosixPath("/" + rest.partition("/")[2])


class Home(Protocol):
    """What knows the table."""

    silent: Kinds
    """Errors of a commit after which it may have been made."""

    def load(self) -> Table | None:
        """The newest version, None if there is no table yet."""

    def create(self, description: TableDescription) -> None:
        """Make it; another writer may be quicker."""


def home_of(place: Place) -> Home:
    """The one that the options of the place name."""
    if any(name.startswith("catalog.") for name, _ in place.settings):
        return _Named(place)
    return _BesideTheData(place)


class _BesideTheData:
    """SQLite on the disk of the table: it says what it did."""

    silent: Kinds = ()

    def __init__(self, place: Place) -> None:
        self._place = place
        self._path = Path(place.path)
        self._catalog: SqlCatalog | None = None

    def load(self) -> Table | None:
        if self._catalog is None:
            if not (self._path / SIDECAR / "catalog.db").exists():
                return None
            self._catalog = catalog(self._path)
        try:
            return self._catalog.load_table(TABLE)
        except NoSuchTableError:
            return None

    def create(self, description: TableDescription) -> None:
        if not (self._path / SIDECAR / "catalog.db").exists():
            self._create_catalog()
        self._catalog = catalog(self._path)
        _create(self._catalog, TABLE, uri(self._place, self._path), description)

    def _create_catalog(self) -> None:
        # pyiceberg makes its tables one by one: two writers at once would collide, a killed one would leave a part.
        folder, fresh = self._path / SIDECAR, f".catalog-{uuid4().hex}.db"
        make_folder(PosixFiles(), folder)
        made = catalog(self._path, fresh)
        made.create_namespace_if_not_exists(TABLE.split(".")[0])
        made.close()
        sync_written([folder / fresh])
        with suppress(FileExistsError):
            PosixFiles().link(folder / fresh, folder / "catalog.db")
        (folder / fresh).unlink()
        PosixFiles().sync_dir(folder)


class _Named:
    """A catalog of many tables, behind a line: all its errors but a lost race say nothing.

    Also a lost race may be our own commit, whose answer was lost and which something in between repeated.
    """

    silent: Kinds = (Exception,)

    def __init__(self, place: Place) -> None:
        self._place = place
        self._name = f"{namespace_of(place.settings)}.{place.path.name}"
        self._catalog: Catalog | None = None

    def _opened(self) -> Catalog:
        if self._catalog is None:
            opened = load_catalog(CATALOG, **catalog_properties(self._place.settings))
            if isinstance(opened, RestCatalog):
                session: Any = opened._session  # pyiceberg waits for an answer for good
                session.request = functools.partial(session.request, timeout=_REQUEST_SECONDS_MAX)
            _keep_own_commits(opened)
            self._catalog = opened
        return self._catalog

    def load(self) -> Table | None:
        try:
            table = self._opened().load_table(self._name)
        except NoSuchTableError:
            return None
        if table.location().rstrip("/") != uri(self._place, self._place.path):
            raise StoreError(
                f"the catalog has a table {self._name} at {table.location()}",
                path=self._place.url(),
                hint="give the table another folder name, or another 'catalog.namespace'",
            )
        return table

    def create(self, description: TableDescription) -> None:
        opened = self._opened()
        with suppress(NamespaceAlreadyExistsError):
            opened.create_namespace(self._name.rpartition(".")[0])
        _create(opened, self._name, uri(self._place, self._place.path), description)


def _keep_own_commits(catalog: Any) -> None:
    """A lost race that is our own commit is a commit: pyiceberg would delete the manifests that the table now has.

    The answer was lost then, and a gateway asked again. Its snapshot's number tells whose it is. If the table cannot be
    read, that error is raised, after which pyiceberg deletes nothing.
    """
    plain = catalog.commit_table

    def commit_table(table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        try:
            done: CommitTableResponse = plain(table, requirements, updates)
        except CommitFailedException:
            ours = {each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)}
            newest = catalog.load_table(table.name())
            if not ours or not ours <= {each.snapshot_id for each in newest.metadata.snapshots}:
                raise
            return CommitTableResponse(metadata=newest.metadata, **{"metadata-location": newest.metadata_location})
        return done

    catalog.commit_table = commit_table


def _create(catalog: Catalog, name: str, location: str, description: TableDescription) -> None:
    try:
        with (
            catalog.create_table_transaction(
                name, schema=arrow(description.schema), location=location, properties=_PROPERTIES
            ) as transaction,
            transaction.update_spec() as spec,
        ):
            for column in description.partition_by:
                spec.add_identity(column)
    except (TableAlreadyExistsError, CommitFailedException):
        return
