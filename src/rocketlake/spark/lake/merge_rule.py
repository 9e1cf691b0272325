"""The rule by which a table is kept up to date: which rows are one, and which of them is newer.

Owns        options mergeKeys, versionColumn, deleteWhen, deleteRetention and mergeBuckets as one value; its checks.
Must not know   rows, tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import BooleanType, DataType, DateType, LongType, StringType, StructType, TimestampType

from rocketlake.base.errors import UsageError
from rocketlake.spark.option_values import Given

__all__ = ["MERGE_OPTIONS", "MergeRule", "merge_rule"]

MERGE_OPTIONS = {
    "mergeKeys": "columns, comma separated: the table keeps the newest row of each key, [upserts](lake_upserts.md)",
    "versionColumn": "upserts: the column (bigint or timestamp) that tells which of two rows is newer; default"
    " `queueOffset`, with bodyFormat = debezium `changeVersion`",
    "deleteWhen": "upserts: a boolean column, or `column = value`: such a row deletes its key; default none, with"
    " bodyFormat = debezium `changeOp = d`",
    "deleteRetention": "upserts: so long a deleted key is remembered, so that a late change brings nothing back;"
    " default `7d`",
    "mergeBuckets": "upserts: number of files that the keys are shared among, 1 to 1000, for good; default 8",
}

_KEYS: tuple[type[DataType], ...] = (StringType, LongType, DateType)
_VERSIONS: tuple[type[DataType], ...] = (LongType, TimestampType)


@dataclass(frozen=True, slots=True)
class MergeRule:
    """What is kept of each key."""

    keys: tuple[str, ...]
    version: str
    buckets: int
    delete_column: str = ""
    """Empty: no row is a delete."""
    delete_value: str | None = None
    """None: the column is a boolean."""
    retention_ms: int = 0

    @property
    def text(self) -> str:
        """What must stay as long as the table."""
        return f"{','.join(self.keys)} by {self.version} in {self.buckets}"

    def check(self, schema: StructType) -> None:
        """UsageError for columns that are missing or cannot be what the rule makes of them."""
        kinds = {field.name: field.dataType for field in schema.fields}
        wanted = [("mergeKeys", name, _KEYS, "string, whole number or date") for name in self.keys]
        wanted.append(("versionColumn", self.version, _VERSIONS, "whole number or timestamp"))
        if self.delete_column:
            plain: tuple[type[DataType], ...] = (BooleanType,) if self.delete_value is None else (*_KEYS, BooleanType)
            wanted.append(("deleteWhen", self.delete_column, plain, "boolean, or `column = value`"))
        for option, name, fitting, words in wanted:
            if name not in kinds:
                raise UsageError(
                    f"option '{option}' names '{name}', which is no column of the table",
                    hint="use one of the columns " + ", ".join(kinds),
                )
            if not isinstance(kinds[name], fitting):
                raise UsageError(
                    f"option '{option}' names '{name}', which is {kinds[name].simpleString()}",
                    hint=f"choose a column of this kind: {words}",
                )


def merge_rule(given: Given, *, table_format: str, body_format: str) -> MergeRule | None:
    """None if the table only grows. UsageError for options that belong to upserts, and for a format without them."""
    keys = tuple(part.strip() for part in given.text("mergeKeys").split(",") if part.strip())
    if not keys:
        for name in MERGE_OPTIONS:
            if name in given:
                raise UsageError(f"option '{name}' belongs to upserts", hint="give 'mergeKeys', too, or remove it")
        return None
    if body_format == "json" and not given.text("bodySchema"):
        raise UsageError(
            "mergeKeys needs columns that are known before the first row", hint="declare them by 'bodySchema'"
        )
    if table_format == "parquet":
        raise UsageError(
            "mergeKeys needs a format whose readers see old and new files change at once, and tableFormat is parquet",
            hint="set tableFormat = delta, or iceberg",
        )
    if given.text("partitionBy", "none").lower() not in ("", "none"):
        raise UsageError(
            "mergeKeys and partitionBy are both given: a new version of a row could lie in another partition",
            hint="leave out 'partitionBy': keys are shared among 'mergeBuckets' files",
        )
    if len(set(keys)) < len(keys):
        raise UsageError(f"option 'mergeKeys' is '{given.text('mergeKeys')}'", hint="name each column once")
    is_change = body_format == "debezium"
    column, has_value, value = given.text("deleteWhen", "changeOp = d" if is_change else "").partition("=")
    return MergeRule(
        keys=keys,
        version=given.text("versionColumn", "changeVersion" if is_change else "queueOffset"),
        buckets=given.number("mergeBuckets", 8, low=1, high=1000),
        delete_column=column.strip(),
        delete_value=value.strip().strip("'") if has_value else None,
        retention_ms=given.duration_ms("deleteRetention", "7d"),
    )
