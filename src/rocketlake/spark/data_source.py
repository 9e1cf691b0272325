"""format("rocketmq"): the door through which Spark comes in.

Owns        the names Spark calls (they are part of its contract), choosing batch or stream.
Must not know   anything else; each question goes to the file named after it.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from rocketlake.spark.source.option_table import NAMES
from rocketlake.spark.source.options import parse_options

__all__ = ["RocketMQDataSource"]


class RocketMQDataSource(DataSource):
    """spark.read / spark.readStream .format("rocketmq"); options: docs/how-to/spark_source.md."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Columns of a message, those of option `columns`; `includeProperties` = false leaves one out."""
        from rocketlake.spark.schema import chosen_schema

        # Spark asks for the schema first: a misspelt option is named at load(), not when the query starts.
        given = NAMES.given(self.options)
        chosen = chosen_schema(given.text("columns") or "full")
        if given.flag("includeProperties", default=True):
            return chosen
        return StructType([field for field in chosen.fields if field.name != "properties"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read; one that takes filters if Spark is going to offer some."""
        from rocketlake.spark.pushdown import is_pushdown_on
        from rocketlake.spark.schema import check_schema
        from rocketlake.spark.source.batch_reader import PushingBatchReader, RocketMQBatchReader

        kind = PushingBatchReader if is_pushdown_on() else RocketMQBatchReader
        return kind(parse_options(self.options, streaming=False), check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream."""
        from rocketlake.spark.schema import check_schema
        from rocketlake.spark.source.stream_reader import RocketMQStreamReader

        return RocketMQStreamReader(parse_options(self.options, streaming=True), check_schema(schema))
