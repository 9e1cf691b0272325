"""The kernel that writes rows as batch entries, against its Python form: same faults, same bytes, same cuts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.spark.sink import arrow_rows
from rocketlake.spark.sink.arrow_rows import ArrowRows, Encoding
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions, parse_options

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.codec import column_batch

TEXT = pa.string()
SCHEMA = pa.schema(
    [("body", pa.binary()), ("tags", TEXT), ("keys", TEXT), ("shardingKey", TEXT), ("properties", pa.map_(TEXT, TEXT))]
)
texts = st.none() | st.text(st.sampled_from("abé \x01\x02漢"), max_size=4) | st.just("k" * 60)
names = st.sampled_from(
    ["a", "b", "color", "", "UNIQ_KEY", "TAGS", "__RL_SEQ", "INNER_X", "__SHARDINGKEY", "n\x01", "é"]
)
rows = st.fixed_dictionaries(
    {
        "body": st.none() | st.binary(max_size=30) | st.just(bytes(200)),
        "tags": texts,
        "keys": texts,
        "shardingKey": texts,
        "properties": st.none() | st.dictionaries(names, texts, max_size=4).map(lambda pairs: list(pairs.items())),
    }
)


def options(batch_bytes: int) -> SinkOptions:
    given_options = {"namesrvAddr": "a:1", "topic": "T", "maxMessageBytes": "100", "batchBytes": str(batch_bytes)}
    return parse_options(given_options, streaming=False)


@settings(max_examples=200)
@given(
    table=st.lists(rows, max_size=12),
    start=st.integers(0, 3),
    batch_bytes=st.sampled_from([1, 200, 700, 100_000]),
    key_prefix=st.sampled_from([b"", b"q/1/2/"]),
    properties_max=st.sampled_from([120, 32_000]),
    first_number=st.sampled_from([0, 7, 2**32 - 2]),
)
def test_both_forms_write_the_same(
    table: list[dict[str, Any]],
    start: int,
    batch_bytes: int,
    key_prefix: bytes,
    properties_max: int,
    first_number: int,
) -> None:
    batch = pa.RecordBatch.from_pylist(table, schema=SCHEMA).slice(start)
    columns = InputColumns({name: number for number, name in enumerate(SCHEMA.names)})
    encoding = Encoding(options(batch_bytes), b"A" * 24, key_prefix)
    found = []
    for has_kernel in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrow_rows, "_HAS_KERNEL", has_kernel)
            patch.setattr(arrow_rows, "PROPERTIES_BYTES_MAX", properties_max)
            patch.setattr(arrow_rows, "MESSAGES_MAX", 5)
            seen = ArrowRows(batch, columns, encoding, first_number)
        good = np.flatnonzero(seen.faults == 0).astype(np.int32)
        bodies, place = [], 0
        while place < len(good):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(arrow_rows, "MESSAGES_MAX", 5)
                body, taken = seen.encode(good, place)
            bodies.append(body)
            place += taken
        found.append((seen.faults.tolist(), bodies))
    assert found[0] == found[1]


def column(values: list[Any]) -> tuple[Any, Any, Any, int]:
    validity, offsets, data = pa.array(values, pa.binary()).buffers()
    return validity, offsets, data, 0


def make(body: Any, count: int, **changes: Any) -> column_batch.ColumnBatch:
    given_parts = {"tags": None, "keys": None, "sharding": None, "properties": None} | changes
    return column_batch.ColumnBatch(count, body, *given_parts.values(), 100, 32_000, 0)


@pytest.mark.parametrize("count", [-1, 3, 2**40])
def test_rows_that_are_not_there_are_refused(count: int) -> None:
    with pytest.raises((ValueError, OverflowError, MemoryError)):
        make(column([b"a", b"b"]), count)


def test_offsets_that_lie_are_refused() -> None:
    for offsets in ([0, 1, 99], [-1, 1, 2], [0, 2, 1], [0, 1]):
        lying = (None, pa.py_buffer(np.array(offsets, np.int32).tobytes()), pa.py_buffer(b"ab"), 0)
        with pytest.raises(ValueError, match="column"):
            make(lying, 2)
    with pytest.raises(ValueError, match="validity"):
        make((pa.py_buffer(b""), *column([b"a", b"b"])[1:]), 2)


def test_properties_that_lie_are_refused() -> None:
    starts = (None, pa.py_buffer(np.array([0, 2], np.int32).tobytes()), 0)
    values = column([b"v", b"w"])
    good = (starts, values, np.array([0, 0], np.int32), [b"n"], b"\x01")
    assert make(column([b"a"]), 1, properties=good).faults == b"\0"
    for bad in (
        (starts, values, np.array([0, 1], np.int32), [b"n"], b"\x01"),
        (starts, values, np.array([0, -1], np.int32), [b"n"], b"\x01"),
        (starts, values, np.array([0], np.int32), [b"n"], b"\x01"),
        (starts, values, np.array([0, 0], np.int32), [b"n"], b""),
        (starts, column([b"v"]), np.array([0, 0], np.int32), [b"n"], b"\x01"),
    ):
        with pytest.raises(ValueError):
            make(column([b"a"]), 1, properties=bad)


def test_only_good_rows_are_written() -> None:
    batch = make(column([b"a", None]), 2)
    assert batch.faults == b"\0\1"
    for rows_wanted in ([1], [2], [-1]):
        with pytest.raises(ValueError, match="makes no message"):
            batch.encode(np.array(rows_wanted, np.int32), 0, 1000, 10, b"A" * 24, b"", 0)
    with pytest.raises(ValueError, match="24"):
        batch.encode(np.array([0], np.int32), 0, 1000, 10, b"A", b"", 0)
    with pytest.raises(ValueError, match="no room"):
        batch.encode(np.array([0], np.int32), 0, 1000, 10, b"A" * 24, b"q/", 0)
