"""Columns of a message in Spark: names, types, and the choice of a read among them.

Owns        the column list, pruning by a user's own .schema(...).
Must not know   how a column is filled (columns.py), options beyond includeProperties and columns.

Spark accepts Arrow batches only if they equal its own idea of the schema exactly (tests/spark/test_facts.py). So the
Arrow schema is always derived from the Spark schema by Spark's own function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketlake.base.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COLUMNS",
    "CORE",
    "DAY_MAX",
    "DAY_MIN",
    "MS_MAX",
    "MS_MIN",
    "Columns",
    "arrow_schema",
    "check_schema",
    "chosen_schema",
    "full_schema",
]

DAY_MIN, DAY_MAX = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days since 1970: Python's datetime holds no others, so a column shows no others."""

MS_MIN, MS_MAX = DAY_MIN * 86_400_000, (DAY_MAX + 1) * 86_400_000 - 1
"""The same in milliseconds."""

# name -> type and content (docs/how-to/spark.md lists the same)
COLUMNS: dict[str, tuple[DataType, str]] = {
    "topic": (StringType(), "topic"),
    "brokerName": (StringType(), "broker name"),
    "queueId": (IntegerType(), "queue of the topic at that broker"),
    "queueOffset": (LongType(), "position in the queue, dense"),
    "commitLogOffset": (LongType(), "byte position in the broker's commit log"),
    "msgId": (StringType(), "id given by the producer (UNIQ_KEY), else offsetMsgId"),
    "offsetMsgId": (StringType(), "id made of the store host and the commit log offset"),
    "tags": (StringType(), "tag"),
    "keys": (StringType(), "index keys, space separated"),
    "shardingKey": (StringType(), "sharding key of an ordered message"),
    "bornTimestamp": (TimestampType(), "producer's clock at send"),
    "storeTimestamp": (TimestampType(), "broker's clock at append"),
    "bornHost": (StringType(), "producer, ip:port"),
    "storeHost": (StringType(), "broker, ip:port"),
    "flag": (IntegerType(), "flag of the application"),
    "sysFlag": (IntegerType(), "RocketMQ's own bits: compression, transaction, address kind"),
    "reconsumeTimes": (IntegerType(), "times this message was sent back"),
    "bodyCRC": (IntegerType(), "checksum of the stored body"),
    "transactionId": (StringType(), "transaction id, if sent in a transaction"),
    "delayLevel": (IntegerType(), "delay level, if sent with one"),
    "deliverTimestamp": (TimestampType(), "time of delivery, if sent with one (TIMER_DELIVER_MS)"),
    "priority": (IntegerType(), "priority, if sent with one"),
    "liteTopic": (StringType(), "lite topic, if sent to one"),
    "properties": (MapType(StringType(), StringType()), "all properties, of user and system"),
    "body": (BinaryType(), "body, decompressed"),
}

CORE = (
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "msgId",
    "tags",
    "keys",
    "storeTimestamp",
    "properties",
    "body",
)
"""The columns that most queries need: `columns` = core."""

Columns = Mapping[str, tuple[DataType, str]]


def full_schema(*, include_properties: bool = True) -> StructType:
    """The schema of format("rocketmq"); every column is nullable, as Spark wants it."""
    return StructType([_field(name, COLUMNS) for name in COLUMNS if include_properties or name != "properties"])


def chosen_schema(text: str, columns: Columns = COLUMNS) -> StructType:
    """The value of option `columns`: core, full, or names with commas between them. UsageError for unknown ones."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    names: Sequence[str] = {"core": CORE, "full": tuple(columns)}.get(words[0], words) if len(words) == 1 else words
    by_lower = {name.lower(): name for name in columns}
    unknown = [name for name in names if name.lower() not in by_lower]
    if unknown or not names or len({name.lower() for name in names}) < len(names):
        raise UsageError(
            f"option 'columns' is '{text}'" + (f": there is no column '{unknown[0]}'" if unknown else ""),
            hint="write core, full, or each wanted column once: " + ", ".join(columns),
        )
    return StructType([_field(by_lower[name.lower()], columns) for name in names])


def check_schema(schema: StructType, columns: Columns = COLUMNS) -> StructType:
    """A user's own .schema(...): any subset in any order; UsageError for unknown columns and other types."""
    for field in schema.fields:
        if field.name not in columns:
            raise UsageError(f"there is no column '{field.name}'", hint="use one of the columns " + ", ".join(columns))
        kind = columns[field.name][0]
        if field.dataType != kind:
            raise UsageError(
                f"column '{field.name}' is {kind.simpleString()}, not {field.dataType.simpleString()}",
                hint="read it as it is, then cast it",
            )
    # NOT NULL in a user's schema would make Spark's comparison with our batches fail, so it is dropped.
    return StructType([_field(field.name, columns) for field in schema.fields])


def _field(name: str, columns: Columns) -> StructField:
    return StructField(name, columns[name][0], nullable=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark compares our first batch with."""
    return to_arrow_schema(schema, timezone="UTC")
