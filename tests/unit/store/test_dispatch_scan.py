from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from rocketlake.base.java.java_compat import string_hash
from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode
from rocketlake.codec.record import encode_blank, encode_record
from rocketlake.store.dispatch_scan import BAD_LENGTH, BLANK, BROKEN, END, DispatchEntry, appended_entry, scan

V4 = encode_host("10.0.0.1", 10911)
V6 = encode_host("2001:db8::1", 10911)
GOLDEN_LOG = Path(__file__).parents[2] / "golden/stores/apache-5.3.3-clean/commitlog"
BASE = 1_000_000
DELAYS_MS = (1000, 5000, 10_000)
STORE_MS = 1_700_000_000_000


def record(
    offset: int,
    *,
    topic: str = "TopicTest",
    body: bytes = b"body",
    properties: bytes = b"",
    sys_flag: int = 0,
    born_host: bytes = V4,
    store_host: bytes = V4,
    queue_offset: int = 5,
    queue_id: int = 3,
) -> bytes:
    return bytes(
        encode_record(
            topic.encode(),
            body,
            properties,
            queue_id=queue_id,
            flag=0,
            queue_offset=queue_offset,
            physical_offset=offset,
            sys_flag=sys_flag | (16 if len(born_host) == 20 else 0) | (32 if len(store_host) == 20 else 0),
            born_ms=1,
            born_host=born_host,
            store_ms=STORE_MS,
            store_host=store_host,
            reconsume_times=0,
            prepared_transaction_offset=77,
            body_crc=zlib.crc32(body) & 0x7FFFFFFF,
        )
    )


def one(data: bytes, *, delays_ms: tuple[int, ...] = DELAYS_MS) -> DispatchEntry:
    entries, taken, status = scan(memoryview(data), BASE, True, delays_ms)
    assert (len(entries), taken, status) == (1, len(data), END)
    return entries[0]


def result(data: bytes, *, check_crc: bool = True) -> tuple[int, int, int]:
    entries, taken, status = scan(memoryview(data), BASE, check_crc, DELAYS_MS)
    return len(entries), taken, status


@pytest.mark.parametrize("born_host", [V4, V6])
@pytest.mark.parametrize("store_host", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "T" * 127, "T" * 128, "%RETRY%" + "g" * 240])
def test_a_record_gives_what_queue_and_index_need(topic: str, born_host: bytes, store_host: bytes) -> None:
    properties = encode({"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "0A"})
    data = record(BASE, topic=topic, properties=properties, born_host=born_host, store_host=store_host)
    entry = one(data)
    assert (entry.topic, entry.queue_id, entry.queue_offset) == (topic, 3, 5)
    assert (entry.physical_offset, entry.size, entry.store_ms, entry.prepared_transaction_offset) == (
        BASE,
        len(data),
        STORE_MS,
        77,
    )
    assert entry.tag_code == string_hash("TagA")
    assert entry.index_keys() == [f"{topic}#0A", f"{topic}#k1", f"{topic}#k2"]


def test_both_ways_to_an_entry_agree() -> None:
    for properties in (b"", encode({"TAGS": "A", "KEYS": "x  y", "UNIQ_KEY": "U", "DELAY": "2"})):
        for topic in ("TopicTest", "SCHEDULE_TOPIC_XXXX"):
            data = record(BASE, topic=topic, properties=properties, sys_flag=8)
            known = appended_entry(topic, 3, 5, BASE, len(data), STORE_MS, 8, 77, properties, DELAYS_MS)
            assert known.as_tuple() == one(data).as_tuple()


@pytest.mark.parametrize(
    ("text", "tags", "keys", "unique_key"),
    [
        (b"", "", [], ""),
        (b"TAGS\x01A\x02TAGS\x01B\x02", "B", [], ""),  # the last counts
        (b"TAGS\x01A\x02TAGS\x01\x02", "A", [], ""),  # an empty value is no value
        (b"TAGS\x01A", "A", [], ""),  # the last separator may be missing
        (b"TAGS\x01A\x01B\x02", "A\x01B", [], ""),  # a name ends at the first separator
        (b"KEYS\x01 a  b \x02", "", ["a", "b"], ""),
        (b"XTAGS\x01A\x02UNIQ_KEY\x01U\x02\x01v\x02noise\x02", "", [], "U"),
        (b"TAGS\x01\xff\xfe\x02", "��", [], ""),
    ],
)
def test_properties_are_read_as_apache_reads_them(text: bytes, tags: str, keys: list[str], unique_key: str) -> None:
    entry = one(record(BASE, properties=text))
    assert (entry.tag_code, entry.keys, entry.unique_key) == (string_hash(tags), keys, unique_key)


@pytest.mark.parametrize(
    ("level", "code"),
    [
        ("1", STORE_MS + 1000),
        ("3", STORE_MS + 10_000),
        ("99", STORE_MS + 10_000),  # a level above the highest becomes the highest
        ("0", string_hash("A")),
        ("-1", string_hash("A")),
        ("x", string_hash("A")),
        ("9" * 5000, string_hash("A")),
    ],
)
def test_the_tag_code_of_a_delayed_message_is_its_time_of_delivery(level: str, code: int) -> None:
    properties = encode({"TAGS": "A", "DELAY": level})
    assert one(record(BASE, topic="SCHEDULE_TOPIC_XXXX", properties=properties)).tag_code == code
    assert one(record(BASE, topic="Other", properties=properties)).tag_code == string_hash("A")


def test_without_levels_a_delayed_message_waits_a_second() -> None:
    data = record(BASE, topic="SCHEDULE_TOPIC_XXXX", properties=encode({"DELAY": "3"}))
    assert one(data, delays_ms=()).tag_code == STORE_MS + 1000


@pytest.mark.parametrize(
    ("kind", "queued", "indexed"), [(0, True, True), (4, False, True), (8, True, True), (12, False, False)]
)
def test_half_messages_and_rollbacks_have_no_queue_entry(kind: int, queued: bool, indexed: bool) -> None:
    entry = one(record(BASE, sys_flag=kind))
    assert (entry.is_queued(), entry.is_indexed()) == (queued, indexed)


def test_records_are_taken_one_after_the_other() -> None:
    first = record(BASE)
    second = record(BASE + len(first), queue_offset=6)
    entries, taken, status = scan(memoryview(first + second), BASE, True, ())
    assert [entry.queue_offset for entry in entries] == [5, 6]
    assert (taken, status) == (len(first + second), END)


def test_a_slice_may_end_inside_a_record() -> None:
    first = record(BASE)
    second = record(BASE + len(first))
    for cut in range(1, len(second)):
        assert result(first + second[:cut]) == (1, len(first), END)


def test_a_blank_ends_the_file() -> None:
    first = record(BASE)
    assert result(first + encode_blank(500) + bytes(492)) == (1, len(first), BLANK)


def test_zeros_are_no_record() -> None:
    assert result(bytes(1000)) == (0, 0, BROKEN)
    first = record(BASE)
    assert result(first + bytes(1000)) == (1, len(first), BROKEN)


def test_a_record_of_another_place_is_no_record() -> None:
    assert result(record(BASE + 1)) == (0, 0, BROKEN)


@pytest.mark.parametrize("fields", [{"queue_offset": -1}, {"queue_offset": 2**62}, {"queue_id": -1}])
def test_numbers_that_no_queue_can_have_are_no_record(fields: dict[str, int]) -> None:
    assert result(record(BASE, **fields)) == (0, 0, BROKEN)  # type: ignore[arg-type]


def test_a_wrong_body_is_found_when_asked_to_look() -> None:
    data = bytearray(record(BASE))
    data[88] ^= 1
    assert result(bytes(data)) == (0, 0, BROKEN)
    assert result(bytes(data), check_crc=False) == (1, len(data), END)


@pytest.mark.parametrize("position", [84, 92, 102])
@pytest.mark.parametrize("change", [-1, 1, 100])
def test_parts_that_do_not_add_up_are_told_apart(position: int, change: int) -> None:
    """Body length, V1 topic length and properties length, each a little off."""
    data = bytearray(record(BASE))
    width = {84: 4, 92: 1, 102: 2}[position]
    value = int.from_bytes(data[position : position + width], "big") + change
    data[position : position + width] = (value % 256**width).to_bytes(width, "big")
    assert result(bytes(data)) == (0, 0, BAD_LENGTH)


@pytest.mark.parametrize("path", sorted(GOLDEN_LOG.iterdir()), ids=lambda path: path.name)
def test_apaches_records_are_all_sound(path: Path) -> None:
    entries, taken, status = scan(memoryview(path.read_bytes()), int(path.name), True, DELAYS_MS)
    assert len(entries) > 5
    assert status in (BLANK, BROKEN)
    assert entries[-1].physical_offset + entries[-1].size == int(path.name) + taken
