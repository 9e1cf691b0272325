"""Bodies of messages as columns, and the bad ones among them.

Owns        JSON and text bodies, the reason why one cannot be read, the form of a bad row in the dead-letter sink.
Must not know   routes, sinks.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.model import Source

__all__ = [
    "JSON_OPTIONS",
    "MESSAGE_COLUMNS",
    "POSITION",
    "REASON",
    "bad_rows",
    "good_rows",
    "refuse_bad_rows",
    "with_bodies",
]

REASON = "_bad"
"""The reason why the body cannot be read, null for a good one."""
_EVENT, _UNREAD = "_event", "_unread"
JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _UNREAD,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
}
"""For from_json, which would otherwise take NaN and 'text', and neither is JSON."""
POSITION = ("topic", "brokerName", "queueId", "queueOffset")
"""The place of a message."""
MESSAGE_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "tags", "keys")
"""The columns of a dead letter besides the body."""


def with_bodies(messages: DataFrame, source: Source) -> DataFrame:
    """The messages with column `_bad`, and with the columns that the body has."""
    if source.body == "raw" or "body" not in messages.columns:
        return messages.withColumn(REASON, F.lit(None).cast(StringType()))
    body = F.col("body")
    reason = F.when(body.isNull() | (F.length(body) == 0), "body is empty").when(
        ~F.is_valid_utf8(body.cast("string")), "body is not UTF-8"
    )
    if source.body == "text":
        return messages.withColumn(REASON, reason)
    schema = _schema(source)
    event = F.from_json(body.cast("string"), StructType([*schema.fields]).add(_UNREAD, StringType()), JSON_OPTIONS)
    read = messages.withColumn(_EVENT, event)
    reason = reason.when(F.col(_EVENT).isNull() | F.col(f"{_EVENT}.{_UNREAD}").isNotNull(), "body does not fit schema")
    fields = [F.col(_EVENT).getField(name).alias(name) for name in schema.fieldNames()]
    return read.select(*fields, *_kept(messages.columns, schema.fieldNames()), reason.alias(REASON))


def _schema(source: Source) -> StructType:
    try:
        schema = StructType.fromDDL(source.schema)
        assert isinstance(schema, StructType)
        return schema
    except Exception as error:  # Spark raises its parser's own kinds
        what = str(error).strip().splitlines()[0]
        hint = "as in SQL: id bigint, at timestamp"
        where = source.options.place("schema", source.where)
        raise UsageError(f"the schema cannot be read: {what}", where=where, hint=hint) from None


def _kept(columns: Sequence[str], fields: Sequence[str]) -> list[Column]:
    """The message's own columns; one that the event has too is called message_<name>."""
    taken = {name.lower() for name in fields}
    return [F.col(name).alias(f"message_{name}" if name.lower() in taken else name) for name in columns]


def refuse_bad_rows(read: DataFrame) -> DataFrame:
    """Let a row with a reason end the query, and name it."""
    place = [F.col(_column(read, name)).cast("string") for name in POSITION if _column(read, name)]
    cure = F.lit("; `onError: skip` or `dlq:` lets the pipeline go on")
    text = F.concat(F.col(REASON), F.lit(" at "), F.concat_ws("/", *place), cure)
    keep = F.when(F.col(REASON).isNull(), F.lit(True)).otherwise(F.raise_error(text).cast("boolean"))
    return read.where(keep)


def good_rows(read: DataFrame, source: Source) -> DataFrame:
    """Rows without a reason."""
    good = read.where(F.col(REASON).isNull()).drop(REASON)
    return good.withColumn("body", F.col("body").cast("string")) if source.body == "text" else good


def bad_rows(read: DataFrame, sink_format: str) -> DataFrame:
    """Rows with a reason, as the dead-letter sink takes them: position, reason and the raw body."""
    bad = read.where(F.col(REASON).isNotNull())
    body = F.col(_column(read, "body"))
    columns = {name: F.col(_column(read, name)) for name in MESSAGE_COLUMNS if _column(read, name)}
    if sink_format != "rocketmq":
        return bad.select(F.col(REASON).alias("reason"), *(c.alias(n) for n, c in columns.items()), body.alias("body"))
    entries = [F.lit("reason"), F.col(REASON)]
    for name in POSITION:
        if name in columns:
            entries += [F.lit(f"dlq_{name}"), columns[name].cast("string")]
    own = [columns[name].alias(name) for name in ("tags", "keys") if name in columns]
    # A message without a body cannot be sent: an empty one becomes a blank.
    text = F.when(F.length(body) > 0, body).otherwise(F.lit(" ").cast("binary"))
    return bad.select(text.alias("body"), *own, F.create_map(*entries).alias("properties"))


def _column(read: DataFrame, name: str) -> str:
    """The name of the message's own column beside the event's; "" if there is none."""
    return next((found for found in (f"message_{name}", name) if found in read.columns), "")
