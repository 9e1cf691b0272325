"""format("rocketmq"): the class that Spark calls first.

Owns        the names that Spark calls (part of Spark's contract), the choice of batch or stream.
Must not know   options, offsets, rows: each has its own file.
"""

from __future__ import annotations

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
from rocketlake.spark.source.option_table import NAMES
from rocketlake.spark.source.options import parse_options

__all__ = ["RocketMQDataSource"]


class RocketMQDataSource(DataSource):
    """spark.read, write, readStream, writeStream .format("rocketmq"); docs/how-to/spark_source.md, spark_sink.md."""

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
        if not given.flag("includeProperties", default=True):
            chosen = StructType([field for field in chosen.fields if field.name != "properties"])
        return carry_options(chosen, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read; one with `pushFilters` if Spark is going to offer filters."""
        from rocketlake.spark.pushdown import is_pushdown_on
        from rocketlake.spark.source.batch_reader import PushingBatchReader, RocketMQBatchReader

        self.options = carried_options(schema, self.options)
        options = parse_options(self.options, streaming=False)
        kind = PushingBatchReader if options.push_down and is_pushdown_on() else RocketMQBatchReader
        return kind(options, self._checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream."""
        from rocketlake.spark.source.stream_reader import RocketMQStreamReader

        self.options = carried_options(schema, self.options)
        return RocketMQStreamReader(parse_options(self.options, streaming=True), self._checked(schema))

    def _checked(self, schema: StructType) -> StructType:
        """The schema of the read: ours, or the user's .schema(...), which the options must not contradict."""
        from rocketlake.spark.schema import check_schema

        checked = check_schema(schema)
        given = NAMES.given(self.options)
        ours = self.schema().names
        if ("columns" in given or "includeProperties" in given) and checked.names != ours:
            raise UsageError(
                f"the columns are given twice, by .schema(...): {', '.join(checked.names)}; and by options: "
                + ", ".join(ours),
                hint="leave out 'columns' and 'includeProperties', or .schema(...)",
            )
        return checked

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write; options: docs/how-to/spark_sink.md."""
        from rocketlake.spark.sink.input_columns import check_columns
        from rocketlake.spark.sink.options import parse_options
        from rocketlake.spark.sink.writers import RocketMQWriter

        if overwrite:
            raise UsageError("a topic cannot be overwritten", hint='use .mode("append")')
        if not {"namesrvaddr", "nameserver", "topic"} & {name.lower() for name in self.options}:
            # INSERT INTO ends here: Spark tells a Python writer no options of the table.
            raise UsageError(
                "neither 'namesrvAddr' nor 'topic' is given, and INSERT INTO a table of this format is not supported",
                hint='use df.write.format("rocketmq") with .option("namesrvAddr", ...) and .option("topic", ...)',
            )
        options = parse_options(self.options, streaming=False)
        return RocketMQWriter(options, check_columns(schema, options.topic))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A stream's sink. `overwrite` comes with output mode complete: all rows of each micro-batch are appended."""
        from rocketlake.spark.sink.input_columns import check_columns
        from rocketlake.spark.sink.options import parse_options
        from rocketlake.spark.sink.writers import RocketMQStreamWriter

        options = parse_options(self.options, streaming=True)
        return RocketMQStreamWriter(options, check_columns(schema, options.topic))
