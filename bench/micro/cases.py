"""What is measured: functions of twins, and of modules that earned none, on what Apache RocketMQ wrote."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.java import java_compat
from rocketlake.codec import property_text, record, record_batch
from rocketlake.codec.host import encode_host
from rocketlake.model.message import Message
from rocketlake.protocol import frame
from rocketlake.protocol.command import Command
from rocketlake.store import dispatch_scan
from rocketlake.store.consume_queue.entry import pack_entry, valid_count
from rocketlake.store.consume_queue.tail import QueueTail, Tails
from rocketlake.store.key_index import layout
from rocketlake.store.key_index.chains import NewEntries
from rocketlake.store.known_records import KnownRecords
from rocketlake.store.selection import Selection

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
LOG = GOLDEN / "stores" / "apache-5.3.3-clean" / "commitlog" / "00000000000000000000"

Case = tuple[str, Callable[[], object], int]
"""(name, call, operations in one call)."""


def cases() -> list[Case]:
    """All rows."""
    of_records = [*text_cases(), *record_cases(), *column_cases()]
    return [*of_records, *frame_cases(), *store_cases(), *queue_cases(), *read_cases()]


def text_cases() -> list[Case]:
    message = record.decode_record(LOG.read_bytes())
    block = property_text.encode(message.properties)
    key = f"{message.topic}#{message.unique_key}"
    return [
        ("java_compat.string_hash, a tag", lambda: java_compat.string_hash("TagA"), 1),
        (f"java_compat.string_hash, {len(key)} characters", lambda: java_compat.string_hash(key), 1),
        (f"property_text.encode, {len(message.properties)} pairs", lambda: property_text.encode(message.properties), 1),
        (f"property_text.decode, {len(message.properties)} pairs", lambda: property_text.decode(block), 1),
        ("property_text.find", lambda: property_text.find(block, b"KEYS"), 1),
    ]


def record_cases() -> list[Case]:
    log = LOG.read_bytes()
    message = record.decode_record(log)
    block = property_text.encode(message.properties)
    host = encode_host("10.0.0.1", 10911)
    body = bytes(1024)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    batch = [Message("T", bytes(100), tags="A", keys="k") for _ in range(100)]
    packed = record_batch.encode_batch(batch)

    def encode() -> object:
        return record.encode_record(
            b"TopicTest", body, block, queue_id=1, flag=0, queue_offset=3, physical_offset=4, sys_flag=0, born_ms=5,
            born_host=host, store_ms=6, store_host=host, reconsume_times=0, prepared_transaction_offset=0, body_crc=crc,
        )  # fmt: skip

    return [
        ("record.encode_record, 1 KiB", encode, 1),
        ("record.decode_records, per record", lambda: record.decode_records(log), len(record.decode_records(log))),
        ("record_batch.encode_batch, per message", lambda: record_batch.encode_batch(batch), len(batch)),
        ("record_batch.decode_batch, per message", lambda: record_batch.decode_batch(packed), len(batch)),
        ("message.Message", lambda: Message("TopicTest", body, tags="TagA", keys="key"), 1),
        ("command.Command", lambda: Command(310, opaque=1, body=body), 1),
    ]


def column_cases() -> list[Case]:
    """Records as Arrow columns, which Spark wants; a row of all columns, and the search for the records alone."""
    from rocketlake.spark.columns import Records, record_batch, record_starts
    from rocketlake.spark.schema import arrow_schema, full_schema

    schema = arrow_schema(full_schema())
    host = encode_host("10.0.0.1", 10911)
    found: list[Case] = []
    for size, rows in ((1024, 2000), (100, 8000)):
        body, data = bytes(size), bytearray()
        for number in range(rows):
            properties = {"TAGS": "TagA", "KEYS": f"k{number}", "UNIQ_KEY": f"{number:032X}", "WAIT": "true"}
            data += record.encode_record(
                b"TopicTest", body, property_text.encode(properties), queue_id=number % 4, flag=0, queue_offset=number,
                physical_offset=len(data), sys_flag=0, born_ms=5, born_host=host, store_ms=6, store_host=host,
                reconsume_times=0, prepared_transaction_offset=0, body_crc=zlib.crc32(body) & 0x7FFFFFFF,
            )  # fmt: skip
        log = bytes(data)

        def batch(log: bytes = log) -> object:
            return record_batch(Records(log, record_starts(log)), "broker-a", schema)

        found.append((f"columns.record_batch, {size} B bodies, a row", batch, rows))
    return found


def frame_cases() -> list[Case]:
    return [*frame_cases_of(frame.Codec.JSON), *frame_cases_of(frame.Codec.ROCKETMQ)]


def frame_cases_of(codec: frame.Codec) -> list[Case]:
    name = codec.name.lower()
    stream = (GOLDEN / "frames" / name / "broker_requests.bin").read_bytes()
    frames = frame.FrameReader().feed(stream)
    commands = [frame.decode_frame(one) for one in frames]
    return [
        (f"frame.feed {name}, per frame", lambda: frame.FrameReader().feed(stream), len(frames)),
        (f"frame.decode_frame {name}", lambda: [frame.decode_frame(one) for one in frames], len(frames)),
        (f"frame.encode_command {name}", lambda: [frame.encode_command(one, codec) for one in commands], len(frames)),
    ]


def store_cases() -> list[Case]:
    log = memoryview(LOG.read_bytes())
    found, _taken, _status = dispatch_scan.scan(log, 0, True, ())
    properties = property_text.encode(record.decode_record(log).properties)
    key = found[0].index_keys()[0]
    return [
        ("dispatch_scan.scan, a record", lambda: dispatch_scan.scan(log, 0, True, ()), len(found)),
        (
            "dispatch_scan.appended_entry",
            lambda: dispatch_scan.appended_entry("T", 0, 1, 2, 3, 4, 0, 0, properties, ()),
            1,
        ),
        ("key_index.layout.key_hash", lambda: layout.key_hash(key), 1),
    ]


def queue_cases() -> list[Case]:
    entries = b"".join(pack_entry(1000 * number, 1000, 7) for number in range(32))
    tail = QueueTail(Tails(1 << 20))
    slots = 1000
    new = NewEntries(slots, memoryview(bytes(layout.file_size(slots, 64))), slots)
    pairs = array("q", (number for pair in range(32) for number in (pair * 7919, pair)))

    def take() -> None:
        tail.tail_room = len(entries)
        tail.take_run(tail.max_offset, entries, tail.max_physical_offset + 32_000)
        tail.drop_tail()

    def put() -> None:
        new.put(pairs, 0, len(pairs), 1, 0)
        new.row_written()

    return [
        ("consume_queue.tail, a run of 32 entries", take, 1),
        ("consume_queue.entry.valid_count, an entry", lambda: valid_count(entries), 32),
        ("key_index.chains, a key of 32", put, 32),
    ]


def read_cases() -> list[Case]:
    log = memoryview(LOG.read_bytes())
    found, _taken, _status = dispatch_scan.scan(log, 0, True, ())
    entries = b"".join(pack_entry(entry.physical_offset, entry.size, entry.tag_code) for entry in found)[: 32 * 20]

    def select() -> None:
        selection = Selection(0, 32, 1 << 20, 32, 1 << 20, 32, 1 << 20, found[0].topic.encode(), found[0].queue_id)
        selection.show(log, 0, len(log), None)
        selection.take(entries, found[0].queue_offset, 0, None, None)

    known = KnownRecords(len(log), len(log), len(log))
    return [
        (f"selection.take, {len(entries) // 20} entries", select, 1),
        ("known_records.skip, a record", lambda: known.skip(log, 0, True), len(found)),
    ]
