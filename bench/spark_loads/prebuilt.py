"""Ceilings: rows of the topic source's schema that cost nothing to make, and a sink that only counts.

What these reach is what Spark's Python data sources can reach on this machine; each load is measured against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.spark_loads.plan import COLUMNS
from rocketlake.spark.schema import arrow_schema, chosen_schema

_CHUNK_BYTES = 2 << 20


def register(spark: SparkSession) -> None:
    """Make format("prebuilt_rows") and format("counting") known."""
    spark.dataSource.register(PrebuiltRows)
    spark.dataSource.register(Counting)


def prebuilt_batch(rows: int, body_bytes: int) -> pa.RecordBatch:
    """Rows with every column filled."""
    schema = chosen_schema(COLUMNS)
    values = {field.name: _column(field.name, field.dataType.typeName(), rows, body_bytes) for field in schema}
    return pa.RecordBatch.from_pydict(values, schema=arrow_schema(schema))


def _column(name: str, kind: str, rows: int, body_bytes: int) -> list[Any]:
    if kind == "string":
        return [f"{name}-{row:016d}" for row in range(rows)]
    if kind == "binary":
        return [bytes(body_bytes)] * rows
    if kind == "map":
        return [[("KEYS", "k"), ("TAGS", "t"), ("UNIQ_KEY", f"{row:032d}")] for row in range(rows)]
    return list(range(rows))


class PrebuiltRows(DataSource):
    """Options rows (in all), bodyBytes, batchRows (rows of a micro-batch)."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt_rows"

    def schema(self) -> StructType:
        return chosen_schema(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Batch(int(self.options["rows"]), int(self.options["bodyBytes"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self.options
        return _Stream(int(options["rows"]), int(options["bodyBytes"]), int(options["batchRows"]))


class _Batch(DataSourceReader):
    def __init__(self, rows: int, body_bytes: int) -> None:
        self._rows = rows
        self._body_bytes = body_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // 8) for _ in range(8)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _repeat(partition.value, self._body_bytes)


def _repeat(rows: int, body_bytes: int) -> Iterator[pa.RecordBatch]:
    chunk = prebuilt_batch(min(rows, 8192, _CHUNK_BYTES // (body_bytes + 300)), body_bytes)
    while rows > 0:
        yield chunk.slice(0, min(rows, len(chunk)))
        rows -= len(chunk)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, rows: int, body_bytes: int, batch_rows: int) -> None:
        self._rows = rows
        self._body_bytes = body_bytes
        self._batch_rows = batch_rows

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"row": min(self._rows, start["row"] + self._batch_rows)}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((end["row"] - start["row"]) // 8) for _ in range(8)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _repeat(partition.value, self._body_bytes)


class Counting(DataSource):
    """A sink that takes Arrow batches and drops them."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _Counter()


class _Counter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _batch in iterator:
            pass
        return WriterCommitMessage()
