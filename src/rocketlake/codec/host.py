"""Address and port as records hold them.

Owns        encode_host, decode_host.
Must not know   sockets, name resolution.

Bytes: docs/internals/record.md ("Hosts"): 4 or 16 bytes of address, port as int32.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from rocketlake.codec.record_layout import RecordError

__all__ = ["HOST_BYTES_V4", "HOST_BYTES_V6", "decode_host", "encode_host"]

HOST_BYTES_V4 = 8
HOST_BYTES_V6 = 20


@lru_cache(maxsize=4096)
def encode_host(address: str, port: int) -> bytes:
    """8 bytes for an IPv4 address in text, 20 for an IPv6 one. RecordError if it is neither."""
    try:
        # "fe80::1%eth0": the zone means something on one machine only
        return ipaddress.ip_address(address.partition("%")[0]).packed + port.to_bytes(4, "big", signed=True)
    except (ValueError, OverflowError) as error:
        raise RecordError(f"no host: {address}:{port}") from error


@lru_cache(maxsize=4096)
def decode_host(data: bytes | memoryview) -> tuple[str, int]:
    """(address text, port) of 8 or 20 bytes. RecordError for another length."""
    if len(data) not in (HOST_BYTES_V4, HOST_BYTES_V6):
        raise RecordError(f"a host of {len(data)} bytes")
    return str(ipaddress.ip_address(bytes(data[:-4]))), int.from_bytes(data[-4:], "big", signed=True)
