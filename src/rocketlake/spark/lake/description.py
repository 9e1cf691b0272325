"""The description of a table: format, partition columns, schema; kept beside it in numbered versions that only grow.

Owns        _rocketlake/description/N.json, made by put-if-absent, so that tasks agree on one schema without a lock.
Must not know   how a schema may grow (table_schema.py), the table's own metadata.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from pyspark.sql.types import StructType

from rocketlake.base.errors import StoreError
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

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
    merge: str = ""
    """What must stay of the rule by which it is kept up to date; empty for a table that only grows."""

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
            }
            | ({"merge": self.merge} if self.merge else {}),
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
            str(value.get("merge", "")),
        )


class Descriptions:
    """The descriptions of the table in one folder."""

    def __init__(self, table: PurePath | Location | Place) -> None:
        self._place = place_of(table)
        self._folder = self._place.path / SIDECAR / "description"

    def latest(self) -> TableDescription | None:
        """The newest version, None if there is no table yet."""
        matches = (_NAME.fullmatch(name) for name in self._place.names(self._folder))
        newest = max((int(match[1]) for match in matches if match), default=0)
        if not newest:
            return None
        path = self._path(newest)
        try:
            return TableDescription.from_json(self._place.get(path) or b"")
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"this is not a table description: {error}",
                path=self._place.url(path),
                hint="restore the file from a copy",
            ) from error

    def put(self, description: TableDescription) -> bool:
        """Make this version; False if another writer made it first."""
        # Two writers with the same columns may both be told that they were first: the file is the same.
        return self._place.put_if_absent(self._path(description.version), description.to_json())

    def _path(self, version: int) -> PurePath:
        return self._folder / f"{version:06d}.json"
