"""The readers with which Spark plans, and which it sends to its workers.

Owns        parts and rows of one read, the choice of filters that Spark need not apply again.
Must not know   how parts are chosen and read (tables.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition, IsNotNull
from pyspark.sql.types import StructType

from rocketlake.spark.pushdown import comparison_of
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import Places, ScanPart
from rocketlake.spark.scan.tables import batches_of, parts_of
from rocketlake.spark.scan.wanted import exact, wanted_of
from rocketlake.spark.schema import arrow_schema

__all__ = ["FilteredStoreReader", "StoreBatchReader"]


class StoreBatchReader(DataSourceReader):
    """One batch read; `read` runs in workers, from the pickled copy."""

    def __init__(self, options: ScanOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._wanted = wanted_of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """The parts of the read. UsageError, StoreError, OSError."""
        # Spark turns "no partition" into one partition of None; a part without places is read as nothing.
        return parts_of(self._options, self._wanted) or [Places(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one part."""
        assert isinstance(partition, ScanPart)
        return batches_of(self._options, self._wanted, arrow_schema(self._schema), partition)


class FilteredStoreReader(StoreBatchReader):
    """The same where Spark offers filters (spark.sql.python.filterPushdown.enabled)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that the scan judges exactly; leave the others to Spark."""
        if self._options.table != "messages":
            return filters
        left: list[Filter] = []
        for filter in filters:
            comparison = comparison_of(filter)
            taken = None if comparison is None else exact(comparison)
            if taken is None:
                left.append(filter)
            else:
                self._wanted = self._wanted.also([taken])
        # Spark adds "is not null" to each comparison; a comparison that is judged here lets no null pass.
        judged = {comparison.column for comparison in self._wanted.comparisons}
        return [each for each in left if not (isinstance(each, IsNotNull) and set(each.attribute) <= judged)]
