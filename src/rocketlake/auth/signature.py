"""The signature of a request: Base64 of HMAC-SHA1 over the values of its fields and its body.

Owns        what is signed, in which order; the comparison that tells nothing by its time.
Must not know   requests, users.

Source: docs/internals/access_control.md, "The signature". Apache's clients sign this way; it covers neither the names
of fields nor the request code, and has no time: TLS protects what goes over a network.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["ACCESS_KEY", "SIGNATURE", "is_signed_by", "sign"]

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
_QUERY_KEY: Final = "_UNIQUE_KEY_QUERY"
_LAST_WITHOUT_QUERY_KEY: Final = 399
"""V4_9_3: clients up to this version sign before they add that key."""

Chunk = bytes | bytearray | memoryview


def sign(secret: str, fields: Mapping[str, str], body: Iterable[Chunk], *, version: int | None = None) -> str:
    """The signature of a request with these fields; AccessKey is one of them. `body`: its pieces."""
    leaves_query_key = version is not None and version <= _LAST_WITHOUT_QUERY_KEY
    digest = hmac.new(secret.encode(), digestmod="sha1")
    digest.update(
        "".join(
            fields[key] for key in sorted(fields) if key != SIGNATURE and not (leaves_query_key and key == _QUERY_KEY)
        ).encode()
    )
    for chunk in body:
        digest.update(chunk)
    return b64encode(digest.digest()).decode("ascii")


def is_signed_by(secret: str, fields: Mapping[str, str], body: bytes, *, version: int) -> bool:
    """True if the field Signature is that of this secret."""
    expected = sign(secret, fields, (body,), version=version)
    return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode())
