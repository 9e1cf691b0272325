"""Limits on the bytes of a peer: every length has one.

Owns        the numbers and their reasons.
Must not know   the code that checks them (frame.py, header_json.py, header_binary.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Java's default for both sides; a larger frame is refused by every peer."""

HEADER_BYTES_MAX: Final = 256 * 1024
"""32767 bytes of message properties, each escaped to six by JSON, are 192 KiB: such a header must get its answer."""

DIALECT_BYTES_MAX: Final = 8 * 1024
"""A header in nonstandard JSON is slow to read. No real peer writes one, so the limit is small."""

FIELDS_MAX: Final = 1024
"""Fields of one header; the largest real header has about thirty."""

REMARK_CHARS_MAX: Final = 16 * 1024
"""A remark is an error text; a longer one is cut, in both directions."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of one connection. Sizes in bytes; `frame_bytes` counts all after the first four bytes of a frame."""

    frame_bytes: int = FRAME_BYTES_MAX
    header_bytes: int = HEADER_BYTES_MAX
    fields: int = FIELDS_MAX


DEFAULT_LIMITS: Final = WireLimits()
