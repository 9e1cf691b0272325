"""Message classes made of the table.

Owns        the private descriptor pool: a program that also has Apache's Python client, which registers the same names
            in protobuf's default pool, may import both.
Must not know   what a message means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

from rocketlake.proxy.v2 import enums
from rocketlake.proxy.v2.table import MESSAGES, METHODS

__all__ = ["PACKAGE", "SERVICE", "file_descriptor", "lines", "message_classes"]

PACKAGE = "apache.rocketmq.v2"
SERVICE = "MessagingService"
_FIELD = re.compile(r"(\w+):([\w.]+)(\[\]|\{\}|\?|\|\w+)?")
_SCALARS = {"bool": 8, "bytes": 12, "float": 2, "int32": 5, "int64": 3, "string": 9}
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3
_WELL_KNOWN = {"Duration": duration_pb2.DESCRIPTOR, "Timestamp": timestamp_pb2.DESCRIPTOR}
_ENUMS: Mapping[str, type[IntEnum]] = {
    **{name: getattr(enums, name) for name in enums.__all__ if name != "OffsetPolicy"},
    "OffsetOption.Policy": enums.OffsetPolicy,
}


def lines(table: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of a table: the word before " = ", the words behind it."""
    for line in table.strip().replace("\n    ", " ").splitlines():
        name, _, words = line.partition(" = ")
        yield name, words.split()


def message_classes() -> dict[str, Any]:
    """name -> class, of a new private pool."""
    pool = descriptor_pool.DescriptorPool()
    for known in _WELL_KNOWN.values():
        pool.AddSerializedFile(known.serialized_pb)
    pool.Add(file_descriptor())
    classes = {name: f"{PACKAGE}.{name}" for name, _ in lines(MESSAGES)}
    classes |= {name: f"google.protobuf.{name}" for name in _WELL_KNOWN}
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(full)) for name, full in classes.items()}


def file_descriptor() -> Any:
    """Both of Apache's files in one: what a `.proto` compiler would make of them."""
    file = descriptor_pb2.FileDescriptorProto(
        name="apache/rocketmq/v2/service.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=[known.name for known in _WELL_KNOWN.values()],
    )
    for name, kind in _ENUMS.items():
        if "." not in name:
            _add_values(file.enum_type.add(name=name), kind)
    for name, words in lines(MESSAGES):
        _add_fields(file.message_type.add(name=name), words)
    service = file.service.add(name=SERVICE)
    for name, (request, response) in lines(METHODS):
        service.method.add(
            name=name,
            input_type=_full(request.removesuffix("[]")),
            output_type=_full(response.removesuffix("[]")),
            client_streaming=request.endswith("[]"),
            server_streaming=response.endswith("[]"),
        )
    return file


def _full(name: str) -> str:
    return f".google.protobuf.{name}" if name in _WELL_KNOWN else f".{PACKAGE}.{name}"


def _add_values(enum: Any, kind: type[IntEnum]) -> None:
    for each in kind:
        enum.value.add(name=each.name, number=each.value)


def _add_fields(message: Any, words: list[str]) -> None:
    for name, kind in _ENUMS.items():
        if name.startswith(f"{message.name}."):
            _add_values(message.enum_type.add(name=name.partition(".")[2]), kind)
    oneofs: list[str] = []
    presences: list[Any] = []
    for number, word in enumerate(words, 1):
        found = _FIELD.fullmatch(word)
        assert found is not None, word
        name, kind_name, mark = found.group(1), found.group(2), found.group(3) or ""
        field = message.field.add(name=name, number=number, label=_REPEATED if mark in ("[]", "{}") else _OPTIONAL)
        if mark == "{}":
            kind_name = f"{message.name}.{_add_entry(message, name, kind_name)}"
        _set_type(field, kind_name)
        if mark.startswith("|"):
            if mark[1:] not in oneofs:
                oneofs.append(mark[1:])
            field.oneof_index = oneofs.index(mark[1:])
        elif mark == "?":
            presences.append(field)
    for name in oneofs:
        message.oneof_decl.add(name=name)
    for field in presences:  # a oneof of one field stands for "may be absent", behind the true ones
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _ENUM if kind in _ENUMS else _MESSAGE
    field.type_name = _full(kind)


def _add_entry(message: Any, name: str, kind: str) -> str:
    """The message that a map is a list of; its name."""
    entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, (inner, inner_kind) in enumerate((("key", "string"), ("value", kind)), 1):
        _set_type(entry.field.add(name=inner, number=number, label=_OPTIONAL), inner_kind)
    return str(entry.name)
