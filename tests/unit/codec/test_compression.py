from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rocketlake.codec.compression import compress, decompress
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.sys_flag import LZ4, ZLIB, ZSTD, mark_compressed

KINDS = [ZLIB, LZ4, ZSTD]
SOURCE = Path(__file__).parents[3] / "src"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"", b"x", b"hello " * 1000, os.urandom(300_000)], ids=len)
def test_what_was_compressed_comes_back(kind, body):
    packed = compress(body, kind)
    for buffer in (packed, bytearray(packed), memoryview(packed)):
        assert decompress(buffer, mark_compressed(0, kind)) == body


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_exactly_the_limit_passes_and_one_more_does_not(kind):
    packed = compress(b"x" * 1000, kind)
    assert len(decompress(packed, mark_compressed(0, kind), limit=1000)) == 1000
    with pytest.raises(RecordError, match="more than 999"):
        decompress(packed, mark_compressed(0, kind), limit=999)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"hello " * 100, os.urandom(300_000)], ids=len)
def test_every_way_to_cut_it_short_is_noticed(kind, body):
    packed = compress(body, kind)
    ends = range(len(packed)) if len(packed) < 1000 else [*range(0, 30), *range(30, len(packed), 9973), len(packed) - 1]
    for end in ends:
        if end < 4:  # too short for the mark of a form
            assert kind == ZLIB or decompress(packed[:end], mark_compressed(0, kind)) == packed[:end]
            continue
        with pytest.raises(RecordError):
            decompress(packed[:end], mark_compressed(0, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_no_compressed_form_comes_as_it_is(kind):
    for seed in range(50):
        noise = b"\x01\x02\x03" + seed.to_bytes(2, "big") * 20
        assert decompress(memoryview(noise), mark_compressed(0, kind)) == noise
    with pytest.raises(RecordError, match="more than 9 bytes"):
        decompress(b"ten bytes.", mark_compressed(0, kind), limit=9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_in_another_form_than_its_flag_says_is_refused(kind):
    for other in KINDS:
        packed = compress(b"hello " * 100, other)
        if other != kind:
            with pytest.raises(RecordError, match="not compressed as its system flag"):
                decompress(packed, mark_compressed(0, kind))


def test_gzip_is_read_where_the_flag_says_zlib():
    packed = gzip.compress(b"hello " * 1000, mtime=0)
    for flag in (1, mark_compressed(0, ZLIB)):
        assert decompress(packed, flag) == b"hello " * 1000
        assert len(decompress(packed, flag, limit=6000)) == 6000
        with pytest.raises(RecordError, match="more than 5999"):
            decompress(packed, flag, limit=5999)
        for broken in (*(packed[:end] for end in range(3, len(packed))), packed + packed):
            with pytest.raises(RecordError):
                decompress(broken, flag)
    with pytest.raises(RecordError, match="lz4"):
        decompress(packed, mark_compressed(0, LZ4))


def test_a_type_nobody_defined_is_refused():
    for kind in (4, 7):
        with pytest.raises(RecordError, match=f"names compression {kind}"):
            decompress(b"x", 1 | kind << 8)
    with pytest.raises(ValueError, match="unknown compression"):
        compress(b"x", 9)


def test_a_flag_without_type_is_zlib_as_old_peers_mean_it():
    assert decompress(zlib.compress(b"old"), 1) == b"old"


BOMB = """
import resource, sys, zlib, lz4.frame, zstandard
from rocketlake.codec.compression import decompress
from rocketlake.codec.record_layout import RecordError
kind = int(sys.argv[1])
pieces = 32
if kind == 3:
    machine = zlib.compressobj(1)
    bomb = b"".join(machine.compress(bytes(1 << 24)) for _ in range(pieces)) + machine.flush()
elif kind == 1:
    machine = lz4.frame.LZ4FrameCompressor(block_size=7)
    parts = [machine.begin()]
    parts += [machine.compress(bytes(1 << 24)) for _ in range(pieces)]
    bomb = b"".join(parts) + machine.flush()
else:
    machine = zstandard.ZstdCompressor(level=1).compressobj()
    bomb = b"".join(machine.compress(bytes(1 << 24)) for _ in range(pieces)) + machine.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(bomb, 1 | kind << 8, limit=16 << 20)
except RecordError as error:
    assert "more than" in str(error), error
else:
    raise SystemExit("the bomb went off")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(bomb))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_of_half_a_gigabyte_takes_no_more_memory_than_a_few_times_the_limit(kind):
    run = subprocess.run(
        [sys.executable, "-c", BOMB, str(kind)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    kilobytes, bomb_bytes = map(int, run.stdout.split())
    assert bomb_bytes < 20 << 20
    assert kilobytes < 150 << 10  # the limit is 16 MiB; a window of Zstandard may be 128 MiB
