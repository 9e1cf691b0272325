"""The description of a table: format, partition columns, schema; kept beside it in numbered versions that only grow.

Owns        _rocketlake/description/N.json, made by put-if-absent, so that tasks agree on one schema without a lock.
Must not know   how a schema may grow (table_schema.py), the table's own metadata.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.durable import make_folder, put_if_absent, read_if_there

__all__ = ["SIDECAR", "Descriptions", "TableDescription"]

SIDECAR = "_rocketlake"
"""Folder beside the data; readers skip names that begin with an underscore."""

_NAME = re.compile(r"(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class TableDescription:
    """One version of a table's description; `schema` holds all columns, partition columns too."""

    version: int
    table_format: str
    kind: str
    """`rows`, or `dead letters` for a __dlq table."""
    partition_by: tuple[str, ...]
    schema: StructType

    def with_schema(self, schema: StructType) -> TableDescription:
        """The next version."""
        return replace(self, version=self.version + 1, schema=schema)

    def to_json(self) -> bytes:
        """The form in the file."""
        return json.dumps(
            {
                "version": self.version,
                "tableFormat": self.table_format,
                "kind": self.kind,
                "partitionBy": self.partition_by,
                "schema": self.schema.jsonValue(),
            },
            indent=1,
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> TableDescription:
        """Read the form in the file. ValueError, KeyError or TypeError for any other text."""
        value: dict[str, Any] = json.loads(text)
        return cls(
            int(value["version"]),
            str(value["tableFormat"]),
            str(value["kind"]),
            tuple(map(str, value["partitionBy"])),
            StructType.fromJson(value["schema"]),
        )


class Descriptions:
    """The descriptions of the table in one folder."""

    def __init__(self, table: Path, files: Files | None = None) -> None:
        self._folder = table / SIDECAR / "description"
        self._files = files or PosixFiles()

    def latest(self) -> TableDescription | None:
        """The newest version, None if there is no table yet."""
        matches = (_NAME.fullmatch(name) for name in self._files.list_dir(self._folder))
        newest = max((int(match[1]) for match in matches if match), default=0)
        if not newest:
            return None
        path = self._path(newest)
        try:
            return TableDescription.from_json(read_if_there(self._files, path) or b"")
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"this is not a table description: {error}", path=str(path), hint="restore the file from a copy"
            ) from error

    def put(self, description: TableDescription) -> bool:
        """Make this version; False if another writer made it first."""
        make_folder(self._files, self._folder)
        return put_if_absent(self._files, self._path(description.version), description.to_json())

    def _path(self, version: int) -> Path:
        return self._folder / f"{version:06d}.json"
