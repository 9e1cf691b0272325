"""Protobuf bodies, by a descriptor set and the name of the message.

Owns        Protobuf types -> Spark types, messages -> rows.
Must not know   tables.

Fields with presence (message fields, optional, members of a oneof) are null when unset; others have their default.
Enums are stored by name, a number without one as its digits; uint64 as decimal(20,0).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.parsed import Grow, Parsed, build_columns, short
from rocketlake.spark.lake.table_schema import body_field

__all__ = ["ProtobufBodies"]

Read = Callable[[Any], Any]
Field = Any

_DESCRIPTOR_BYTES_MAX = 16 << 20
_TIMESTAMP = "google.protobuf.Timestamp"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ProtobufBodies:
    """Bodies that are one message each."""

    def __init__(self, descriptor_file: str, message: str) -> None:
        from google.protobuf import message_factory

        descriptor = _find(descriptor_file, message)
        self._message = message_factory.GetMessageClass(descriptor)
        read = [(field, *_column(field, (descriptor.full_name,))) for field in descriptor.fields]
        self._cells = [_reader(field, inner) for field, _, inner in read]
        self.fields = StructType([body_field(field.name, kind) for field, kind, _ in read])

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """Fields that the descriptor does not know are left out."""
        from google.protobuf.message import DecodeError

        rows: list[Sequence[Any] | None] = []
        bad: dict[int, str] = {}
        for number, body in enumerate(bodies):
            try:
                if body is None:
                    raise DecodeError("there is no body")
                message = self._message.FromString(body)
                rows.append([cell(message) for cell in self._cells])
            except (DecodeError, ValueError, OverflowError) as error:
                rows.append(None)
                bad[number] = f"protobuf: {short(error)}"
        return build_columns(rows, self.fields, bad)


def _find(file: str, message: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        with Path(file).open("rb") as opened:
            raw = opened.read(_DESCRIPTOR_BYTES_MAX + 1)
        if len(raw) > _DESCRIPTOR_BYTES_MAX:
            raise ValueError("larger than 16 MiB")
        found = descriptor_pb2.FileDescriptorSet.FromString(raw)
        pool = descriptor_pool.DescriptorPool()
        for each in found.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise UsageError(
            f"option 'protobufMessage': {file} has no message '{message}'", hint="give its full name, package.Message"
        ) from error
    except (OSError, DecodeError, TypeError, ValueError) as error:
        raise UsageError(
            f"option 'protobufDescriptor': {file} is no descriptor set: {short(error)}",
            hint="make it with protoc --include_imports --descriptor_set_out=FILE, where driver and tasks see it",
        ) from error


def _column(field: Field, inside: tuple[str, ...]) -> tuple[DataType, Read]:
    """Type of a field, and the function that reads one value; for maps and lists, of the whole."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, key_read = _value(entry.fields_by_name["key"], inside)
        value, value_read = _value(entry.fields_by_name["value"], inside)
        return MapType(key, value), lambda pairs: [(key_read(k), value_read(pairs[k])) for k in pairs]
    kind, read = _value(field, inside)
    if field.is_repeated:
        return ArrayType(kind), lambda values: [read(value) for value in values]
    return kind, read


def _value(field: Field, inside: tuple[str, ...]) -> tuple[DataType, Read]:
    kind = field.cpp_type
    if kind == field.CPPTYPE_MESSAGE:
        return _message(field.message_type, inside)
    if kind == field.CPPTYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return StringType(), lambda number: names.get(number, str(number))
    if kind == field.CPPTYPE_STRING:
        return (BinaryType() if field.type == field.TYPE_BYTES else StringType()), _same
    if kind == field.CPPTYPE_BOOL:
        return BooleanType(), _same
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return DoubleType(), _same
    return (DecimalType(20, 0) if kind == field.CPPTYPE_UINT64 else LongType()), _same


def _message(descriptor: Any, inside: tuple[str, ...]) -> tuple[DataType, Read]:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return TimestampType(), lambda m: _EPOCH + datetime.timedelta(seconds=m.seconds, microseconds=m.nanos // 1000)
    if name in inside:
        raise UsageError(
            f"option 'protobufMessage': {name} contains itself",
            hint="leave it out of the schema: a table has no such type",
        )
    parts = [(field, *_column(field, (*inside, name))) for field in descriptor.fields]
    readers = [(field.name, _reader(field, read)) for field, _, read in parts]
    kind = StructType([StructField(field.name, inner) for field, inner, _ in parts])
    return kind, lambda message: {name: read(message) for name, read in readers}


def _reader(field: Field, read: Read) -> Read:
    name = field.name
    if field.has_presence:
        return lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return lambda message: read(getattr(message, name))


def _same(value: Any) -> Any:
    return value
