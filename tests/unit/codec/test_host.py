from __future__ import annotations

import pytest

from rocketlake.codec.host import decode_host, encode_host
from rocketlake.codec.record_layout import RecordError


def test_an_ipv4_host_is_four_bytes_and_a_port():
    assert encode_host("127.0.0.1", 10911) == b"\x7f\0\0\1\0\0\x2a\x9f"
    assert decode_host(b"\x7f\0\0\1\0\0\x2a\x9f") == ("127.0.0.1", 10911)


def test_an_ipv6_host_is_sixteen_bytes_and_a_port():
    data = encode_host("fe80::1%eth0", 80)
    assert len(data) == 20
    assert decode_host(memoryview(data)) == ("fe80::1", 80)


@pytest.mark.parametrize(("address", "port"), [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", 2**31)])
def test_what_is_no_host_is_refused(address, port):
    with pytest.raises(RecordError):
        encode_host(address, port)


@pytest.mark.parametrize("size", [0, 7, 9, 19, 21])
def test_other_lengths_are_refused(size):
    with pytest.raises(RecordError):
        decode_host(bytes(size))
