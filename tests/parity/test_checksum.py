"""The checksum kernel against zlib."""

from __future__ import annotations

import os
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.base import checksum


@given(st.binary(max_size=400))
@example(bytes(1000))
@example(b"\xff" * 4096)
def test_it_is_zlibs(data: bytes) -> None:
    assert checksum.crc32(data) == zlib.crc32(data)


def test_it_is_zlibs_at_every_length() -> None:
    data = bytes(position * 31 % 251 for position in range(300))
    for size in range(300):
        assert checksum.crc32(memoryview(data)[:size]) == zlib.crc32(data[:size]), size


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(TypeError):
        checksum.crc32("text")  # type: ignore[arg-type]
