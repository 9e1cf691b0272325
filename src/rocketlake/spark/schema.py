"""Columns of a message in Spark: names, types, and which of them a read was asked for.

Owns        the column list, pruning by a user's own .schema(...).
Must not know   how a column is filled (columns.py), options beyond includeProperties.

Spark accepts Arrow batches only if they equal its own idea of the schema exactly (reference spark.md 1.2 fact 3), so
the Arrow schema is always derived from the Spark schema by Spark's own function.
"""

from __future__ import annotations

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

__all__ = ["COLUMNS", "arrow_schema", "check_schema", "full_schema"]

# name -> type, and what it holds (docs/how-to/spark.md lists the same)
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
    "properties": (MapType(StringType(), StringType()), "all properties, of user and system"),
    "body": (BinaryType(), "body, decompressed"),
}


def full_schema(*, include_properties: bool = True) -> StructType:
    """The schema of format("rocketmq"); every column is nullable, as Spark wants it."""
    fields = [StructField(name, kind, nullable=True) for name, (kind, _) in COLUMNS.items()]
    return StructType([field for field in fields if include_properties or field.name != "properties"])


def check_schema(schema: StructType) -> StructType:
    """A user's own .schema(...): any subset in any order; UsageError for unknown columns and other types."""
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise UsageError(f"there is no column '{field.name}'", hint="columns: " + ", ".join(COLUMNS))
        kind = COLUMNS[field.name][0]
        if field.dataType != kind:
            raise UsageError(
                f"column '{field.name}' is {kind.simpleString()}, not {field.dataType.simpleString()}",
                hint="read it as it is, then cast it",
            )
    # NOT NULL in a user's schema would make Spark's comparison with our batches fail; nothing is lost by dropping it.
    return StructType([StructField(field.name, COLUMNS[field.name][0], nullable=True) for field in schema.fields])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark compares our first batch with."""
    return to_arrow_schema(schema, timezone="UTC")
