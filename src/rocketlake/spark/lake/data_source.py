"""format("rocketmq_lake"): the class that Spark calls first.

Owns        the names that Spark calls (part of Spark's contract), the choice of stream, batch or read.
Must not know   options, tables, rows: each has its own file.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.catalogue_table import carried_options, carry_options

__all__ = ["RocketMQLakeDataSource"]


class RocketMQLakeDataSource(DataSource):
    """writeStream / write / read .format("rocketmq_lake"); options: docs/how-to/lake.md."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rocketmq_lake"

    def schema(self) -> StructType:
        """The columns of the table at `path`."""
        from rocketlake.spark.lake.reader import table_schema

        options = _of_table(self.options)
        return carry_options(table_schema(options), options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of one version of the table."""
        from rocketlake.spark.lake.reader import LakeReader

        return LakeReader(carried_options(schema, _of_table(self.options)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Refused: a table is no stream."""
        raise UsageError(
            'format("rocketmq_lake") cannot be read as a stream',
            hint='read the topic itself with format("rocketmq"), or this table with spark.read',
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write, mode append."""
        from rocketlake.spark.lake.spark_writers import LakeBatchWriter

        _only_append(overwrite)
        return LakeBatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A stream, output mode append."""
        from rocketlake.spark.lake.spark_writers import LakeStreamWriter

        _only_append(overwrite)
        return LakeStreamWriter(self.options, schema)


def _of_table(options: Mapping[str, str]) -> dict[str, str]:
    """The options, with the path of a table made in SQL: Spark passes it as the table's place, not as an option."""
    is_made = "provider" in options and "path" in options
    return {**options, "option.path": options["path"]} if is_made else dict(options)


def _only_append(overwrite: bool) -> None:
    if overwrite:
        raise UsageError(
            'format("rocketmq_lake") only appends: it does not replace a table',
            hint='use .outputMode("append") or .mode("append"); delete the folder to begin anew',
        )
