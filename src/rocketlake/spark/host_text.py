"""An address of a record as text.

Owns        how a row shows it: ip:port, [ip]:port for IPv6.
Must not know   columns.
"""

from __future__ import annotations

from rocketlake.codec.host import decode_host

__all__ = ["host_text"]


def host_text(raw: bytes) -> str:
    """The text of 8 or 20 bytes."""
    host, port = decode_host(raw)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
