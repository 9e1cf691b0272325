"""The columns made from all records at once equal those made from each record alone."""

from __future__ import annotations

import datetime
import gzip
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketlake.base.crc32 import crc32
from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.codec.compression import compress
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import sys_flag
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.columns import Records, record_batch, record_batches, record_starts
from rocketlake.spark.pushdown import Comparison
from rocketlake.spark.scan.wanted import Wanted
from rocketlake.spark.schema import COLUMNS, CORE, arrow_schema, check_schema, chosen_schema, full_schema

QUEUE = MessageQueue("T", "broker-a", 3)
SCHEMA = arrow_schema(full_schema())
Make = Callable[..., bytes]


def batch_of(*records: bytes, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    data = b"".join(records)
    return record_batch(Records(data, record_starts(data)), "broker-a", schema)


def row_of(record: bytes) -> dict[str, Any]:
    """The same row by the ordinary decoder."""
    message = decode_record(record)
    own_id = offset_message_id(*message.store_host, message.physical_offset)
    properties = message.properties
    level = properties.get("DELAY")
    return {
        "topic": message.topic,
        "brokerName": "broker-a",
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "msgId": properties.get("UNIQ_KEY", own_id),
        "offsetMsgId": own_id,
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "shardingKey": properties.get("__SHARDINGKEY"),
        "bornTimestamp": _time(message.born_ms),
        "storeTimestamp": _time(message.store_ms),
        "bornHost": _host(message.born_host),
        "storeHost": _host(message.store_host),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "reconsumeTimes": message.reconsume_times,
        "bodyCRC": message.body_crc,
        "transactionId": properties.get("__transactionId__"),
        "delayLevel": int(level) if level else None,
        "deliverTimestamp": _time(int(properties["TIMER_DELIVER_MS"])) if "TIMER_DELIVER_MS" in properties else None,
        "priority": int(properties["_SYS_MSG_PRIORITY_"]) if "_SYS_MSG_PRIORITY_" in properties else None,
        "liteTopic": properties.get("__LITE_TOPIC"),
        "properties": sorted(properties.items()),
        "body": message.body,
    }


def _time(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC) + datetime.timedelta(milliseconds=ms % 1000)


def _host(host: tuple[str, int]) -> str:
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row | {"properties": sorted(row["properties"])} for row in batch.to_pylist()]


def random_record(make_record: Make, rng: random.Random, offset: int) -> bytes:
    names = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "__SHARDINGKEY", "__transactionId__", "WAIT", "ключ", "x" * 40]
    names += ["_SYS_MSG_PRIORITY_", "__LITE_TOPIC", "TIMER_DELIVER_MS"]
    values = ["1", "a b", "значение", "0" * 32, "☂" * 9]
    properties = {name: rng.choice(values) for name in rng.sample(names, rng.randrange(len(names)))}
    for name, numbers in (("DELAY", 18), ("_SYS_MSG_PRIORITY_", 9), ("TIMER_DELIVER_MS", 2**41)):
        if name in properties:
            properties[name] = str(rng.randrange(numbers))
    v6 = {"host": "2001:db8::7", "flags": 0}
    body = rng.randbytes(rng.choice([0, 1, 17, 300]))
    flags = 0
    if rng.random() < 0.3:
        kind = rng.choice([sys_flag.LZ4, sys_flag.ZSTD, sys_flag.ZLIB])
        body, flags = compress(body, kind, 3), sys_flag.mark_compressed(0, kind)
    hosts = {}
    for bit, name in ((sys_flag.BORN_HOST_V6, "born_host"), (sys_flag.STORE_HOST_V6, "store_host")):
        if rng.random() < 0.3:
            flags |= bit
            hosts[name] = encode_host(str(v6["host"]), rng.randrange(65536))
        else:
            hosts[name] = encode_host(f"10.0.0.{rng.randrange(4)}", rng.randrange(65536))
    topic = rng.choice(["T", "t" * 127, "t" * 200])
    return make_record(
        MessageQueue(topic, "broker-a", rng.randrange(8)),
        offset,
        body,
        properties=properties,
        body_crc=crc32(body),
        sys_flag=flags,
        flag=rng.randrange(-5, 5),
        reconsume_times=rng.randrange(17),
        born_ms=rng.randrange(2**41),
        store_ms=rng.randrange(2**41),
        physical_offset=rng.randrange(2**50),
        **hosts,
    )


@pytest.mark.parametrize("seed", range(30))
def test_columns_equal_the_records_decoded_one_by_one(make_record: Make, seed: int) -> None:
    rng = random.Random(seed)
    records = [random_record(make_record, rng, offset) for offset in range(rng.randrange(1, 40))]
    batch = batch_of(*records)
    assert batch.schema.equals(SCHEMA)
    batch.validate(full=True)
    assert rows_of(batch) == [row_of(record) for record in records]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_alone_has_exactly_the_type_spark_wants(make_record: Make, name: str) -> None:
    schema = StructType([field for field in full_schema().fields if field.name == name])
    wanted = to_arrow_schema(schema, timezone="UTC")
    assert batch_of(make_record(QUEUE, 0, b"x"), schema=wanted).schema.equals(wanted)


def test_properties_are_read_as_java_reads_them(make_record: Make) -> None:
    text = b"a\x011\x02\x01no name\x02no value\x01\x02no separator\x02\x02b\x01x\x01y\x02last\x01without end"
    broken = b"k\x01\xff\xfe\x02"
    plain, odd = (_with_properties(make_record, block) for block in (text, broken))
    rows = batch_of(plain, odd).to_pylist()
    assert rows[0]["properties"] == [("a", "1"), ("b", "x\x01y"), ("last", "without end")]
    assert rows[1]["properties"] == [("k", "��")]


def _with_properties(make_record: Make, block: bytes) -> bytes:
    bare = make_record(QUEUE, 0, b"body")
    assert bare[-2:] == b"\0\0"
    whole = bare[:-2] + len(block).to_bytes(2, "big") + block
    return len(whole).to_bytes(4, "big") + whole[4:]


def test_of_a_repeated_property_the_last_counts(make_record: Make) -> None:
    record = _with_properties(make_record, b"TAGS\x01first\x02TAGS\x01last\x02")
    assert batch_of(record).column("tags").to_pylist() == ["last"]


@pytest.mark.parametrize("cut", [1, 4, 90, 120])
def test_half_a_record_is_refused_not_skipped(make_record: Make, cut: int) -> None:
    record = make_record(QUEUE, 0, b"x" * 50)
    with pytest.raises(ProtocolError, match="broken at byte"):
        record_starts(record + record[:cut])


@pytest.mark.parametrize(("at", "value"), [(84, 2**31 - 1), (84, 2**32 - 1), (84, 51), (84, 49), (138, 0xFFFFFFFF)])
def test_lengths_that_lie_are_refused(make_record: Make, at: int, value: int) -> None:
    record = bytearray(make_record(QUEUE, 0, b"x" * 50))
    record[at : at + 4] = value.to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        batch_of(bytes(record[:]), make_record(QUEUE, 1, b""))


def test_a_record_too_short_for_the_addresses_it_claims_is_refused(make_record: Make) -> None:
    record = bytearray(make_record(QUEUE, 0, b""))
    record[36:40] = (sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6).to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        batch_of(bytes(record))


def test_a_body_that_does_not_match_its_checksum_is_an_error(make_record: Make) -> None:
    record = make_record(QUEUE, 7, b"body", body_crc=crc32(b"other"))
    with pytest.raises(ProtocolError, match="queue offset 7"):
        batch_of(record)


def test_inner_batches_are_refused_by_name(make_record: Make) -> None:
    record = make_record(QUEUE, 7, b"", sys_flag=sys_flag.INNER_BATCH | sys_flag.NEED_UNWRAP)
    with pytest.raises(UsageError, match="BatchCQ"):
        batch_of(record)


@pytest.mark.parametrize("digits", ["", "-1", "9" * 20, "１２"])
def test_numbers_that_are_none_are_null(make_record: Make, digits: str) -> None:
    names = ("DELAY", "_SYS_MSG_PRIORITY_", "TIMER_DELIVER_MS")
    (row,) = batch_of(make_record(QUEUE, 0, b"x", properties=dict.fromkeys(names, digits))).to_pylist()
    assert (row["delayLevel"], row["priority"], row["deliverTimestamp"]) == (None, None, None)


MILLISECOND = datetime.timedelta(milliseconds=1)
FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC)
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@pytest.mark.parametrize(
    ("ms", "moment"),
    [
        (FIRST_MS, FIRST),
        (FIRST_MS - 1, None),
        (LAST_MS, LAST),
        (LAST_MS + 1, None),
        (1_764_000_000_000_000, None),  # microseconds
        (1_764_000_000_000_000_000, None),  # nanoseconds, which become a time of today again if they overflow
        (-(2**63), None),
        (2**63 - 1, None),
    ],
)
def test_times_that_python_does_not_hold_are_null(make_record: Make, ms: int, moment: datetime.datetime | None) -> None:
    properties = {"TIMER_DELIVER_MS": str(ms)}
    odd = make_record(QUEUE, 0, b"x", properties=properties, born_ms=ms, store_ms=ms)
    rows = batch_of(odd, make_record(QUEUE, 1, b"x", born_ms=1, store_ms=1)).to_pylist()
    delivery = moment if ms >= 0 else None
    assert [rows[0][name] for name in ("bornTimestamp", "storeTimestamp", "deliverTimestamp")] == [
        moment,
        moment,
        delivery,
    ]
    assert rows[1]["bornTimestamp"] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + MILLISECOND
    records = Records(odd, record_starts(odd))
    for sign, bound in ((">=", -(2**62)), ("<", 2**62)):
        found = Wanted((Comparison("storeTimestamp", sign, (bound,)),)).rows(records)
        assert (found is None) == (moment is not None)


def test_bodies_that_grow_come_in_several_batches(make_record: Make) -> None:
    flags = sys_flag.mark_compressed(0, sys_flag.ZSTD)
    packed = compress(bytes(1000), sys_flag.ZSTD, 3)
    records = [
        make_record(QUEUE, offset, packed if offset % 3 else b"as it is", sys_flag=flags if offset % 3 else 0,
                    body_crc=crc32(packed if offset % 3 else b"as it is"))
        for offset in range(10)
    ]  # fmt: skip
    data = b"".join(records)
    flat = pa.array(range(10))
    schema = SCHEMA.append(pa.field("number", pa.int64()))
    found = [
        *record_batches(Records(data, record_starts(data)), "b", schema, extra={"number": flat}, body_bytes_max=2000)
    ]
    assert [len(batch) for batch in found] == [4, 3, 3]
    rows = pa.Table.from_batches(found).to_pylist()
    assert [row["body"] for row in rows] == [bytes(1000) if offset % 3 else b"as it is" for offset in range(10)]
    assert [row["number"] for row in rows] == [row["queueOffset"] for row in rows] == [*range(10)]


def test_a_body_in_no_compressed_form_is_a_row_as_it_is_and_gzip_is_unpacked(make_record: Make) -> None:
    """Apache's proxy stores both with the mark of zlib."""
    data = make_record(QUEUE, 0, b"plain", sys_flag=1) + make_record(
        QUEUE, 1, gzip.compress(b"packed", mtime=0), sys_flag=1
    )
    assert batch_of(data).column("body").to_pylist() == [b"plain", b"packed"]


def test_lenient_rows_show_broken_bodies_as_they_are_stored(make_record: Make) -> None:
    flags = sys_flag.mark_compressed(0, sys_flag.LZ4)
    broken = compress(b"lz4", sys_flag.LZ4, 3)[:-1]
    data = make_record(QUEUE, 0, b"body", body_crc=1) + make_record(QUEUE, 1, broken, sys_flag=flags)
    records = Records(data, record_starts(data))
    (batch,) = record_batches(records, "broker-a", SCHEMA, lenient=True)
    assert batch.column("body").to_pylist() == [b"body", None]
    assert records.crc_ok.tolist() == [False, True]
    with pytest.raises(RecordError):
        record_batch(records.take(slice(1, 2)), "broker-a", SCHEMA)


def test_columns_may_be_chosen_by_group_or_name() -> None:
    assert chosen_schema("full") == full_schema()
    assert chosen_schema("core").fieldNames() == [*CORE]
    assert chosen_schema(" body, QUEUEOFFSET").fieldNames() == ["body", "queueOffset"]
    for wrong in ("", "body,body", "value", "body,core"):
        with pytest.raises(UsageError, match="columns"):
            chosen_schema(wrong)


def test_a_users_schema_may_name_fewer_columns_in_another_order(make_record: Make) -> None:
    wanted = StructType().add("queueOffset", "long", nullable=False).add("body", "binary")
    schema = arrow_schema(check_schema(wanted))
    batch = batch_of(make_record(QUEUE, 5, b"five"), schema=schema)
    assert batch.to_pylist() == [{"queueOffset": 5, "body": b"five"}]


@pytest.mark.parametrize(
    ("name", "kind", "said"), [("value", "binary", "value"), ("body", "string", "binary, not string")]
)
def test_a_users_schema_with_other_columns_or_types_is_refused(name: str, kind: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_schema(StructType().add(name, kind))
