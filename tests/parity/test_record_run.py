"""The kernel that encodes runs of records; what whole runs look like: test_plain_sends.py."""

from __future__ import annotations

import os
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.codec import record_run


@given(st.binary(max_size=400))
@example(bytes(1000))
@example(b"\xff" * 4096)
def test_its_checksum_is_zlibs(data: bytes) -> None:
    assert record_run.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize("size", range(0, 300))
def test_its_checksum_at_every_length(size: int) -> None:
    data = bytes(position * 31 % 251 for position in range(size))
    assert record_run.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize("name", ["", "x" * 128, "Thé"])
def test_a_topic_that_no_run_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        record_run.RunTopic(name)
