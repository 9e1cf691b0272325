"""A streaming source that writes down every call Spark makes; found by Spark because of its package's name.

Options: `folder` holds `available` (how many rows there are) and `calls` (one JSON line per call).
`initial` = what initialOffset answers; `limit` = rows per batch; `schema` = "wrong" breaks the Arrow schema;
`goes_back` = the end of a batch may lie before its start; `shuffled` = equal offsets are written in changing order;
`pushes` = a batch reader takes filters "always", or "asked": if the planner is in the call stack.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, EqualTo, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rocketlake.spark.pushdown import is_pushdown_on

reads_in_this_process = 0


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "probe"

    def schema(self) -> str:
        return "n bigint, reads bigint, pid bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Reader(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        pushes = self.options.get("pushes", "")
        kind = PushingBatch if pushes == "always" or (pushes == "asked" and is_pushdown_on()) else Batch
        return kind(dict(self.options))


class Range(InputPartition):
    pass


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        self.folder = Path(options["folder"])
        self.options = options
        self.target: int | None = None
        self.turns = 0

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
        self.note("latestOffset", start=start["n"], limit=type(limit).__name__)
        end = self.available() if self.target is None else self.target
        end = end if "goes_back" in self.options else max(start["n"], end)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["n"] + limit.max_rows)
        if "shuffled" in self.options:
            self.turns += 1
            return {"n": end, "m": 0} if self.turns % 2 else {"m": 0, "n": end}
        return {"n": end}

    def prepareForTriggerAvailableNow(self) -> None:
        self.note("prepareForTriggerAvailableNow")
        self.target = self.available()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self.note("partitions", start=start["n"], end=end["n"])
        return [Range((start["n"], end["n"]))] if start["n"] < end["n"] else []

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


class Batch(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.stream = Reader(options)

    only: int | None = None

    def partitions(self) -> Sequence[InputPartition]:
        return [Range((0, self.stream.available()) if self.only is None else (self.only, self.only + 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.stream.read(partition)


class PushingBatch(Batch):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            value = getattr(each, "value", None)
            self.stream.note("pushFilters", kind=type(each).__name__, value_kind=type(value).__name__)
            if type(each) is EqualTo:
                self.only = value
        return filters
