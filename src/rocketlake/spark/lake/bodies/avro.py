"""Avro bodies: one record each, written with a known schema, without container or header.

Owns        Avro types -> Spark types, decoding by fastavro.
Must not know   tables, schema registries.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.parsed import Grow, Parsed, build_columns, short
from rocketlake.spark.lake.table_schema import body_field

__all__ = ["AvroBodies"]

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": LongType(),
    "long": LongType(),
    "float": DoubleType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_SCHEMA_BYTES_MAX = 4 << 20


class AvroBodies:
    """`schema` is JSON text, or the path of a file that holds it."""

    def __init__(self, schema: str) -> None:
        import fastavro

        try:
            parsed = cast("Any", fastavro.parse_schema(json.loads(_text(schema))))
        except (ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException) as error:
            raise UsageError(
                f"option 'avroSchema' holds no Avro schema: {short(error)}", hint="give the writers' schema, a record"
            ) from error
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise UsageError("option 'avroSchema' is no record", hint="give a record: a body becomes columns")
        self._schema = parsed
        self._read = fastavro.schemaless_reader
        named: dict[str, Any] = {}
        fields: list[dict[str, Any]] = parsed["fields"]
        self._names = [field["name"] for field in fields]
        record = _spark(parsed, named, ())
        assert isinstance(record, StructType)
        self.fields = StructType([body_field(field.name, field.dataType) for field in record.fields])

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """A body that is longer or shorter than its record is bad."""
        rows: list[Sequence[Any] | None] = []
        bad: dict[int, str] = {}
        for number, body in enumerate(bodies):
            stream = io.BytesIO(body or b"")
            try:
                record: Any = self._read(stream, self._schema, None)
                if stream.tell() != len(body or b""):
                    raise ValueError(f"{len(body or b'') - stream.tell()} bytes are left over")
                rows.append([_cell(record[name]) for name in self._names])
            except Exception as error:  # broken bytes make fastavro raise errors of any kind
                rows.append(None)
                bad[number] = f"avro: {type(error).__name__} {short(error)}"
        return build_columns(rows, self.fields, bad)


def _text(schema: str) -> str:
    if schema.lstrip().startswith(("{", "[", '"')):
        return schema
    try:
        with Path(schema).open("rb") as file:
            raw = file.read(_SCHEMA_BYTES_MAX + 1)
        if len(raw) > _SCHEMA_BYTES_MAX:
            raise UsageError(f"option 'avroSchema': {schema} is larger than 4 MiB", hint="give an .avsc file")
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"option 'avroSchema': {schema} cannot be read: {short(error)}",
            hint="give JSON text, or a file that driver and tasks see",
        ) from error


def _spark(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        if len(kinds) != 1:
            raise UsageError(
                "option 'avroSchema' has a union of several types",
                hint="write it as [null, T], the only union that is taken",
            )
        return _spark(kinds[0], named, inside)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema in inside:
            raise UsageError(
                f"option 'avroSchema': {schema} contains itself",
                hint="leave it out of the schema: a table has no such type",
            )
        if schema not in named:
            raise UsageError(
                f"option 'avroSchema' has type '{schema}', which no column has",
                hint="use one of the types in docs/how-to/lake.md",
            )
        return _spark(named[schema], named, inside)
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None and logical.startswith("time-"):
        raise UsageError(f"option 'avroSchema' has a {logical}, which no column has", hint="send it as long or string")
    if kind == "array":
        return ArrayType(_spark(schema["items"], named, inside))
    if kind == "map":
        return MapType(StringType(), _spark(schema["values"], named, inside))
    if kind == "record":
        within = (*inside, schema["name"])
        return StructType([StructField(f["name"], _spark(f["type"], named, within)) for f in schema["fields"]])
    return _spark(kind, named, inside)


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cell(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cell(inner) for inner in value]
    return str(value) if type(value).__name__ == "UUID" else value
