"""Round trips and broken bytes of the codec, for inputs that hypothesis makes up."""

from __future__ import annotations

import contextlib
import zlib

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.java import json_text
from rocketlake.base.java.java_compat import string_hash
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.base.settings import config_file
from rocketlake.codec import property_text
from rocketlake.codec.compression import compress, decompress
from rocketlake.codec.host import decode_host, encode_host
from rocketlake.codec.record import decode_record, decode_records, encode_record, record_size
from rocketlake.codec.record_batch import decode_batch, encode_batch
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.message import Message
from rocketlake.model.message_id import offset_message_id, parse_offset_message_id
from rocketlake.model.sys_flag import COMPRESSED, LZ4, ZLIB, ZSTD, mark_compressed

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
hosts = st.tuples(addresses, st.integers(0, 65535))
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=50)
properties = st.dictionaries(words, words, max_size=8)
topics = st.one_of(st.text("abcXYZ_-%|0129", max_size=127), st.text("abcXYZ_-%|0129", min_size=128, max_size=300))


@st.composite
def records(draw):
    body = draw(st.binary(max_size=300))
    sys_flag = draw(int32) & ~0x701  # not compressed
    if draw(st.booleans()):
        kind = draw(st.sampled_from([LZ4, ZSTD, ZLIB]))
        stored, sys_flag = compress(body, kind), mark_compressed(sys_flag, kind)
    else:
        stored = body
    fields = {
        "queue_id": draw(int32), "flag": draw(int32), "queue_offset": draw(int64), "physical_offset": draw(int64),
        "sys_flag": sys_flag, "born_ms": draw(int64), "born_host": draw(hosts), "store_ms": draw(int64),
        "store_host": draw(hosts), "reconsume_times": draw(int32), "prepared_transaction_offset": draw(int64),
        "body_crc": zlib.crc32(stored) & 0x7FFFFFFF,
    }  # fmt: skip
    return draw(topics), body, stored, draw(properties), fields


def write(record):
    topic, _, stored, named, fields = record
    encoded = {key: encode_host(*value) if key.endswith("_host") else value for key, value in fields.items()}
    return encode_record(topic.encode(), stored, property_text.encode(named), **encoded)


@given(records())
def test_a_record_read_is_the_record_written(record):
    topic, body, stored, named, fields = record
    data = write(record)
    message = decode_record(data)
    assert (message.topic, message.body, message.properties) == (topic, body, named)
    assert message.store_size == len(data)
    for name in ("born_host", "store_host"):
        assert getattr(message, name) == decode_host(encode_host(*fields[name]))
    v6_bits = (16 if ":" in fields["born_host"][0] else 0) | (32 if ":" in fields["store_host"][0] else 0)
    assert message.sys_flag == fields["sys_flag"] & ~48 | v6_bits
    for name in set(fields) - {"born_host", "store_host", "sys_flag"}:
        assert getattr(message, name) == fields[name]
    assert decode_record(data, decompress=False).body == stored
    sizes = [20 if ":" in fields[name][0] else 8 for name in ("born_host", "store_host")]
    assert len(data) == record_size(len(topic), len(stored), len(property_text.encode(named)), *sizes)


@given(st.lists(records(), max_size=4), st.binary(max_size=100))
def test_records_back_to_back_with_anything_behind(many, tail):
    data = b"".join(write(record) for record in many)
    assert [message.body for message in decode_records(data)] == [record[1] for record in many]
    found = decode_records(data + tail)
    assert len(found) >= len(many)
    assert [message.body for message in found[: len(many)]] == [record[1] for record in many]


@given(records(), st.data())
def test_a_record_with_changed_bytes_is_read_or_refused_never_anything_else(record, data):
    broken = write(record)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    for check_crc in (True, False):
        with contextlib.suppress(RecordError):
            message = decode_record(broken, check_crc=check_crc, body_bytes_max=1 << 20)
            assert message.store_size <= len(broken)


@given(st.binary(max_size=400), st.integers(-5, 405))
def test_noise_is_refused(noise, position):
    try:
        message = decode_record(noise, position)
    except RecordError:
        return
    assert message.store_size <= len(noise) - position


@given(st.lists(st.tuples(st.binary(max_size=100), properties, int32), max_size=6))
def test_a_batch_read_is_the_batch_written(parts):
    messages = [Message.with_properties("T", body, named, flag=flag) for body, named, flag in parts]
    entries = decode_batch(encode_batch(messages))
    assert [(body, property_text.decode(named), flag) for flag, body, named in entries] == parts


@given(st.binary(max_size=200))
def test_noise_as_a_batch_is_read_whole_or_refused(noise):
    try:
        entries = decode_batch(noise)
    except RecordError:
        return
    assert sum(22 + len(body) + len(named) for _, body, named in entries) == len(noise)


@given(properties)
def test_properties_read_are_the_properties_written(named):
    block = property_text.encode(named)
    assert property_text.decode(block) == named
    for name, value in named.items():
        assert property_text.find(block, name.encode()) == value.encode()


@given(st.binary(max_size=100), st.binary(min_size=1, max_size=3).filter(lambda name: not set(name) & {1, 2}))
def test_find_agrees_with_decode_on_any_block(block, name):
    wanted = property_text.decode(block.decode("latin-1").encode())  # one character per byte
    found = property_text.find(block, name)
    assert (found.decode("latin-1") if found is not None else None) == wanted.get(name.decode("latin-1"))


@given(st.binary(max_size=2000), st.sampled_from([LZ4, ZSTD, ZLIB]), st.integers(0, 3000))
def test_decompression_gives_the_body_or_refuses_what_is_above_the_limit(body, kind, limit):
    packed = compress(body, kind)
    try:
        assert decompress(packed, mark_compressed(0, kind), limit) == body
        assert len(body) <= limit
    except RecordError:
        assert len(body) > limit


@given(st.binary(max_size=300), st.sampled_from([LZ4, ZSTD, ZLIB]), st.data())
def test_damaged_compressed_bodies_never_grow_past_the_limit(body, kind, data):
    packed = bytearray(compress(body, kind))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        assert len(decompress(packed, COMPRESSED | kind << 8, 1000)) <= 1000


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), int64, st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=20,
)


@given(json_values)
def test_json_text_written_is_read_back_by_both_readers(value):
    assert json_text.parse(json_text.to_text(value)) == value
    lenient = json_text.parse(b"[" + json_text.to_text(value) + b",,]")  # no standard JSON: takes the tolerant reader
    assert lenient == [value]


@given(st.dictionaries(int32, st.one_of(int32, words), max_size=5))
def test_number_keys_come_back_as_text_in_every_flavour(value):
    wanted = {str(key): member for key, member in value.items()}
    assert json_text.parse(json_text.to_text_unquoted_keys(value)) == wanted
    assert json_text.parse(json_text.to_text(value)) == wanted
    assert json_text.parse(to_pretty_text(value)) == wanted


@given(st.text(alphabet="{}[]:,\"'\\ab01.-+eE/* \n\ufeff", max_size=60))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(json_text.JsonError):
        assert is_json(json_text.parse(text))


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_refused(data):
    with contextlib.suppress(json_text.JsonError):
        assert is_json(json_text.parse(data))


def is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or isinstance(value, bool | int | float | str)


trimmed = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda text: text == text.strip())


@given(st.dictionaries(trimmed.filter(bool), trimmed, max_size=6))
def test_a_properties_file_written_is_read_back(values):
    assert config_file.parse_properties(config_file.to_properties(values)) == values


@given(st.text(max_size=200))
def test_any_text_is_a_properties_file(text):
    assert isinstance(config_file.parse_properties(text), dict)


@given(hosts, st.integers(0, 2**63 - 1))
def test_offset_ids_and_hosts_come_back(host, offset):
    address, port = decode_host(encode_host(*host))
    assert parse_offset_message_id(offset_message_id(address, port, offset)) == (address, port, offset)


@given(st.text())
def test_the_java_hash_is_that_of_its_utf16_units(text):
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[position : position + 2], "big")
    value &= 0xFFFFFFFF
    assert string_hash(text) == (value - 2**32 if value >= 2**31 else value)
