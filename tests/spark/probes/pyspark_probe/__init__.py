"""A streaming source that writes down every call Spark makes; found by Spark because of its package's name.

Options: `folder` holds `available` (how many rows there are) and `calls` (one JSON line per call).
`initial` = what initialOffset answers; `limit` = rows per batch; `schema` = "wrong" breaks the Arrow schema.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

reads_in_this_process = 0


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "probe"

    def schema(self) -> str:
        return "n bigint, reads bigint, pid bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Reader(dict(self.options))


class Range(InputPartition):
    pass


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        self.folder = Path(options["folder"])
        self.options = options
        self.target: int | None = None

    def note(self, call: str, **more: Any) -> None:
        with (self.folder / "calls").open("a") as file:
            file.write(json.dumps({"call": call, "pid": os.getpid(), **more}) + "\n")

    def available(self) -> int:
        return int((self.folder / "available").read_text())

    def initialOffset(self) -> dict[str, int]:
        self.note("initialOffset")
        return {"n": int(self.options.get("initial", "0"))}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self.options["limit"])) if "limit" in self.options else ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self.note("latestOffset", start=start["n"])
        end = max(start["n"], self.available() if self.target is None else self.target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["n"] + limit.max_rows)
        return {"n": end}

    def prepareForTriggerAvailableNow(self) -> None:
        self.note("prepareForTriggerAvailableNow")
        self.target = self.available()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self.note("partitions", start=start["n"], end=end["n"])
        return [Range((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        global reads_in_this_process
        reads_in_this_process += 1
        low, high = partition.value
        size = high - low
        kind = pa.int32() if self.options.get("schema") == "wrong" else pa.int64()
        columns = [
            pa.array(range(low, high), kind),
            pa.array([reads_in_this_process] * size, pa.int64()),
            pa.array([os.getpid()] * size, pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["n", "reads", "pid"])

    def commit(self, end: dict[str, int]) -> None:
        self.note("commit", end=end["n"])

    def stop(self) -> None:
        self.note("stop")
