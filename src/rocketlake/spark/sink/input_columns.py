"""The columns a sink takes, checked when the query is planned.

Owns        their names and types, the errors for others.
Must not know   values, how they become a message.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
)

from rocketlake.base.errors import UsageError

__all__ = ["COLUMNS", "LEFT_OUT", "InputColumns", "check_columns"]

_TEXT = (StringType, NullType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType, NullType)

COLUMNS: dict[str, tuple[str, str]] = {
    "body": ("binary or string", "the message (required)"),
    "topic": ("string", "where it goes, if option `topic` is not given"),
    "tags": ("string", "its tag, for filters"),
    "keys": ("string", "keys to look it up by, blank separated"),
    "shardingKey": ("string", "rows with one sharding key go to one queue, in their order"),
    "properties": (
        "map<string,string>",
        "properties of the user; names of RocketMQ's own and empty values are left out",
    ),
    "brokerName": ("string", "with `queueId`: exactly this queue; null: one is chosen"),
    "queueId": ("int", "with `brokerName`: exactly this queue"),
    "delayLevel": ("int", "delivered later, 1 to 18; null or 0: at once. Such rows are sent one by one"),
    "deliverTimestamp": ("any", "must be null: delivery at a time is not built"),
    "priority": (
        "int",
        "0 and up: consumers that pop get higher ones first; null: none. Such rows are sent one by one",
    ),
}
"""Name -> type and use (docs/how-to/spark_sink.md lists the same)."""

LEFT_OUT = frozenset(
    [
        "queueOffset",
        "commitLogOffset",
        "msgId",
        "offsetMsgId",
        "bornTimestamp",
        "storeTimestamp",
        "bornHost",
        "storeHost",
        "flag",
        "sysFlag",
        "reconsumeTimes",
        "bodyCRC",
        "transactionId",
        "liteTopic",
        "crcOk",
        "frameStatus",
        "recordSize",
    ]
)
"""Columns of our sources that the sink ignores: brokers or clients set them.

So rows of a source can be written as they are.
"""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """The places of a sink's columns in its input."""

    places: dict[str, int]

    def __contains__(self, name: str) -> bool:
        return name in self.places


def check_columns(schema: StructType, topic_option: str) -> InputColumns:
    """UsageError names the column and the cure."""
    by_lower = {name.lower(): name for name in COLUMNS}
    passed = {name.lower() for name in LEFT_OUT}
    places: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        lower = field.name.lower()
        name = by_lower.get(lower)
        if name is None:
            if lower in passed:
                continue
            raise UsageError(
                f"column '{field.name}' is not known to the sink of format(\"rocketmq\")",
                hint=f"take it out, or pack it into the body: to_json(struct(*)) as body; known: {', '.join(COLUMNS)}",
            )
        if name in places:
            raise UsageError(f"column '{name}' is there twice", hint="keep one")
        _check_type(name, field.dataType)
        places[name] = number
    _check_set(places, topic_option)
    return InputColumns(places)


def _check_set(places: dict[str, int], topic_option: str) -> None:
    if "body" not in places:
        raise UsageError(
            "the rows have no column 'body'",
            hint='name one: .selectExpr("to_json(struct(*)) as body"), or cast(... as binary)',
        )
    if not topic_option and "topic" not in places:
        raise UsageError("no topic to write to", hint="give option 'topic', or a column 'topic'")
    if ("brokerName" in places) != ("queueId" in places):
        raise UsageError(
            "columns 'brokerName' and 'queueId' belong together",
            hint="give both to choose a queue, or drop the other one",
        )


def _check_type(name: str, kind: DataType) -> None:
    if name == "deliverTimestamp":
        return
    if name == "body":
        good = isinstance(kind, (BinaryType, StringType))
    elif name == "properties":
        good = isinstance(kind, NullType) or (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    else:
        good = isinstance(kind, _WHOLE if name in ("queueId", "delayLevel", "priority") else _TEXT)
    if not good:
        raise UsageError(
            f"column '{name}' is {kind.simpleString()}, not {COLUMNS[name][0]}",
            hint="write to_json(...) as body, or cast(... as string) as body"
            if name == "body"
            else f"write cast(... as {COLUMNS[name][0]}) as {name}",
        )
