"""format("rocketmq_store"): the class that Spark calls first.

Owns        the names that Spark calls (part of Spark's contract).
Must not know   options, parts, rows: each has its own file.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from rocketlake.spark.catalogue_table import carried_options, carry_options

__all__ = ["StoreDataSource"]


class StoreDataSource(DataSource):
    """spark.read.format("rocketmq_store").load(root); options: docs/how-to/spark_store.md."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rocketmq_store"

    def schema(self) -> StructType:
        """Columns of the table; option `columns` chooses some."""
        from rocketlake.spark.scan.options import parse_options
        from rocketlake.spark.scan.tables import COLUMNS_OF
        from rocketlake.spark.schema import chosen_schema

        # Spark asks for the schema first: a wrong option is named at load(), not when the query starts.
        table = parse_options(self.options).table
        return carry_options(chosen_schema(self.options.get("columns", "full"), COLUMNS_OF[table]), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from rocketlake.spark.pushdown import is_pushdown_on
        from rocketlake.spark.scan.options import parse_options
        from rocketlake.spark.scan.store_reader import FilteredStoreReader, StoreBatchReader
        from rocketlake.spark.scan.tables import COLUMNS_OF
        from rocketlake.spark.schema import check_schema

        self.options = carried_options(schema, self.options)
        options = parse_options(self.options)
        kind = FilteredStoreReader if options.push_down and is_pushdown_on() else StoreBatchReader
        return kind(options, check_schema(schema, COLUMNS_OF[options.table]))
