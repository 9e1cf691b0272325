"""The kernel that reads columns out of records, against the Python forms: good records, broken ones, any bytes."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)
pytest.importorskip("rocketlake.codec.record_columns", reason="not compiled; run `make install`")

from rocketlake.base.crc32 import crc32
from rocketlake.codec import record_columns
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_blank, encode_record
from rocketlake.codec.record_walk import BLANK, END, find_record_slowly, sound_starts_slowly, walk_slowly
from rocketlake.spark.columns_kernel import KernelForm
from rocketlake.spark.columns_numpy import NumpyForm

HOSTS = ("10.0.0.7", "255.255.255.255", "1.2.3.4", "::1", "2001:db8::7", "::ffff:1.2.3.4")
TEXTS = (b"", b"A", b"a b c", "ключ".encode(), "☂💧".encode(), b"x" * 300, b"0AF" * 10)
BAD_TEXTS = (
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x98",
    b"abcdefgh\x80",
    b"\xf0\x80\x80\x80",
)
NAMES = (b"TAGS", b"KEYS", b"UNIQ_KEY", b"TAG", b"TAGS2", "имя".encode(), b"")


def record(rng: random.Random, place: int, *, texts: tuple[bytes, ...] = TEXTS) -> bytes:
    pairs = [(rng.choice(NAMES), rng.choice(texts)) for _ in range(rng.randrange(8))]
    block = b"".join(
        rng.choice((b"%b\x01%b\x02", b"%b\x01%b\x02", b"%b%b\x02", b"%b\x01\x01%b\x02")) % pair for pair in pairs
    )
    body = rng.randbytes(rng.choice((0, 1, 63, 64, 200)))
    topic = rng.choice((b"T", b"topic" * 20, "тема".encode(), b"w" * 200))
    return bytes(
        encode_record(
            topic if texts is TEXTS else rng.choice((topic, rng.choice(texts))), body,
            block[:-1] if block and rng.random() < 0.3 else block,
            queue_id=rng.randrange(9), flag=rng.randrange(-(2**31), 2**31), queue_offset=rng.randrange(2**40),
            physical_offset=place, sys_flag=rng.choice((0, 1, 4, 8, 12)), born_ms=rng.randrange(2**41),
            born_host=encode_host(rng.choice(HOSTS), rng.randrange(65536)), store_ms=rng.randrange(2**41),
            store_host=encode_host(rng.choice(HOSTS), rng.choice((0, 9, 10911, 65535, -1))),
            reconsume_times=rng.randrange(9), prepared_transaction_offset=0,
            body_crc=crc32(body) if rng.random() < 0.9 else rng.randrange(2**31),
        )
    )  # fmt: skip


def run(rng: random.Random, base: int, count: int, **more: Any) -> bytes:
    data = b""
    for _ in range(count):
        data += record(rng, base + len(data), **more)
    return data


def starts_of(data: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.frombuffer(walk_slowly(data, -1)[0], dtype=np.int64)


def all_of(form: Any) -> dict[str, Any]:
    instead = {row: (b"other" * 50, None, b"")[row % 3] for row in range(0, len(form.crc_ok()), 4)}
    found = {
        "int32": form.int32s(16, 0), "size": form.int32s(0, 0), "reconsume": form.int32s(56, 2),
        "born": form.int64s(40, 0), "store": form.int64s(48, 1), "place": form.int64s(28, 0),
        "crc": form.crc_ok(), "bodies": form.bodies({}), "others": form.bodies(instead), "topics": form.topics(),
        "maps": form.maps(), "own": form.message_ids(b""), "ids": form.message_ids(b"UNIQ_KEY"),
        "born host": form.hosts(0), "store host": form.hosts(1),
    } | {name.decode(): form.named(name) for name in NAMES if name} | {"none": form.named(b"NONE")}  # fmt: skip
    for value in found.values():
        if isinstance(value, pa.Array):
            value.validate(full=True)
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


@pytest.mark.parametrize("seed", range(40))
def test_both_forms_give_the_same_columns(seed: int) -> None:
    rng = random.Random(seed)
    data = run(rng, 0, rng.randrange(1, 60))
    starts = starts_of(data)
    kernel, python = KernelForm(data, starts), NumpyForm(data, starts)
    assert kernel.is_text()
    assert (kernel.misfit, kernel.has_inner_batches) == (-1, False)
    assert all_of(kernel) == all_of(python)
    row = rng.randrange(len(starts))
    assert kernel.body(row) == python.body(row)


@pytest.mark.parametrize("seed", range(20))
def test_text_that_is_no_utf8_is_left_to_the_python_form(seed: int) -> None:
    rng = random.Random(seed)
    data = run(rng, 0, 10, texts=BAD_TEXTS[:1] if seed == 0 else (BAD_TEXTS[seed % len(BAD_TEXTS)],))
    blocks = NumpyForm(data, starts_of(data))._properties._blob
    topics = [text for text in NumpyForm(data, starts_of(data)).topics().to_pylist() if "�" in text]
    assert KernelForm(data, starts_of(data)).is_text() == ("�".encode() not in blocks and not topics)


def test_utf8_is_judged_as_python_judges_it() -> None:
    rng = random.Random(7)
    pieces = [
        *BAD_TEXTS,
        *(text for text in TEXTS if text),
        b"\xee\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xed\x9f\xbf",
        b"\xdf\xbf",
    ]
    for _ in range(2000):
        text = b"".join(rng.choice(pieces)[: rng.randrange(1, 9)] for _ in range(rng.randrange(1, 5)))
        data = _with_properties(b"k\x01" + text + b"\x02")
        is_text = KernelForm(data, np.zeros(1, dtype=np.int64)).is_text()
        try:
            text.decode()
        except UnicodeDecodeError:
            assert not is_text, text
        else:
            assert is_text, text


def _with_properties(block: bytes) -> bytes:
    host = encode_host("127.0.0.1", 1)
    return bytes(
        encode_record(
            b"T", b"", block, queue_id=0, flag=0, queue_offset=0, physical_offset=0, sys_flag=0, born_ms=0,
            born_host=host, store_ms=0, store_host=host, reconsume_times=0, prepared_transaction_offset=0, body_crc=0,
        )
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_both_forms_refuse_the_same_broken_records(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(run(rng, 0, 8))
    starts = starts_of(bytes(data))
    sizes = np.diff(np.append(starts, len(data)))
    for _ in range(rng.randrange(1, 4)):
        row = rng.randrange(len(starts))
        at = int(starts[row]) + rng.choice((7, 36, 39, 84, 85, 86, 87, rng.randrange(40, int(sizes[row]))))
        data[at] ^= 1 << rng.randrange(8)
    kernel, python = KernelForm(bytes(data), starts), NumpyForm(bytes(data), starts)
    # Each names a first misfit; numpy looks at one length of all records before the next, so it may name another.
    assert (kernel.misfit < 0) == (python.misfit < 0)
    if kernel.misfit < 0 and not kernel.has_inner_batches and kernel.is_text():
        assert all_of(kernel) == all_of(python)


@pytest.mark.parametrize("place", [-1, -(2**40), 1, 10**9])
def test_a_start_outside_of_the_bytes_is_a_misfit(place: int) -> None:
    data = record(random.Random(1), 0)
    assert KernelForm(data, np.array([0, place])).misfit == 1


@pytest.mark.parametrize("seed", range(60))
def test_a_walk_stops_where_the_python_form_stops(seed: int) -> None:
    rng = random.Random(seed)
    base = rng.choice((0, 2**40, 123))
    data = bytearray(run(rng, base, rng.randrange(1, 12)) + rng.choice((b"", bytes(200), encode_blank(100) + b"rest")))
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    cut = bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
    for place in (base, base + 1, -1):
        assert record_columns.walk(cut, place) == walk_slowly(cut, place)


@pytest.mark.parametrize("seed", range(60))
def test_a_record_behind_other_bytes_is_found_where_the_python_form_finds_it(seed: int) -> None:
    rng = random.Random(seed)
    base = rng.choice((0, 2**40))
    noise = bytes(rng.choice((0xDA, 0xA3, 0x20, 0xA7, 0xAB, 0, 255)) for _ in range(rng.randrange(300)))
    good = run(rng, base + len(noise), 3)
    data = bytearray(noise + good)
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    for begin in (0, 1, len(noise), len(data) - 95, len(data)):
        assert record_columns.find_record(data, begin, base) == find_record_slowly(data, begin, base)


@pytest.mark.parametrize("seed", range(30))
def test_the_sound_ones_of_some_places_are_the_python_forms(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(run(rng, 77, 9))
    places = [*starts_of(bytes(data)).tolist(), -5, 10**12, len(data), len(data) - 50, rng.randrange(len(data))]
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    starts = np.array(places, dtype=np.int64)
    assert record_columns.sound_starts(data, starts, 77) == sound_starts_slowly(data, starts, 77)
    assert seed or len(sound_starts_slowly(data, starts, 77)) >= 8 * 5


def test_a_whole_run_is_walked_to_its_blank() -> None:
    data = run(random.Random(3), 500, 20)
    assert walk_slowly(data, 500)[1:] == (len(data), END)
    assert record_columns.walk(data + encode_blank(64), 500)[1:] == (len(data), BLANK)


def test_fields_and_rows_that_do_not_exist_are_refused() -> None:
    kernel = record_columns.RecordColumns(record(random.Random(1), 0), np.zeros(1, dtype=np.int64), bytearray)
    for call in (
        lambda: kernel.int32s(70, 2), lambda: kernel.int64s(44, 0), lambda: kernel.int32s(0, 3),
        lambda: kernel.hosts(2, str), lambda: kernel.body(1), lambda: kernel.body(-1), lambda: kernel.bodies({1: b""}),
    ):  # fmt: skip
        with pytest.raises(IndexError):
            call()


def test_what_would_read_outside_the_records_is_refused() -> None:
    """structure.md, bug 16: no caller does so today."""
    data = run(random.Random(1), 0, 3)
    with pytest.raises(ValueError, match="not below 0"):
        record_columns.find_record(data, 0, -1)
    with pytest.raises(ValueError, match="not below 0"):
        record_columns.find_record(data, -5, 0)
    form = KernelForm(data, starts_of(data))
    for at in (-4, 48):
        with pytest.raises(IndexError, match=f"at {at} behind 0 hosts"):
            form.int32s(at, 0)
    with pytest.raises(TypeError):
        form.bodies({0: "text"})
