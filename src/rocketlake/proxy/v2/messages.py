"""What others import: `from rocketlake.proxy.v2 import messages as v2`, then `v2.SendMessageRequest`, `v2.Code.OK`.

Owns        the classes by name, the methods by their path.
Must not know   what a message means.

A class is protobuf's; its fields are checked by protobuf at run time, and are `Any` to mypy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketlake.proxy.v2.enums import (
    AddressScheme,
    ClientType,
    Code,
    DigestType,
    Encoding,
    FilterType,
    Language,
    LiteSubscriptionAction,
    MessageType,
    OffsetPolicy,
    Permission,
    QueryOffsetPolicy,
    TransactionResolution,
    TransactionSource,
)
from rocketlake.proxy.v2.pool import PACKAGE, SERVICE, lines, message_classes
from rocketlake.proxy.v2.table import METHODS as _METHODS

__all__ = [
    "METHODS",
    "AddressScheme",
    "ClientType",
    "Code",
    "DigestType",
    "Encoding",
    "FilterType",
    "Language",
    "LiteSubscriptionAction",
    "MessageType",
    "Method",
    "OffsetPolicy",
    "Permission",
    "QueryOffsetPolicy",
    "TransactionResolution",
    "TransactionSource",
]

_CLASSES = message_classes()


class Method(NamedTuple):
    """One method of the service."""

    name: str
    request: Any
    response: Any
    requests_stream: bool
    responses_stream: bool


METHODS = {
    f"/{PACKAGE}.{SERVICE}/{name}": Method(
        name,
        _CLASSES[request.removesuffix("[]")],
        _CLASSES[response.removesuffix("[]")],
        request.endswith("[]"),
        response.endswith("[]"),
    )
    for name, (request, response) in lines(_METHODS)
}
"""path -> method; the path is that of HTTP/2's `:path`."""


def __getattr__(name: str) -> Any:
    """A message class, also Timestamp and Duration."""
    try:
        found = _CLASSES[name]
    except KeyError:
        raise AttributeError(f"apache.rocketmq.v2 has no message {name}") from None
    globals()[name] = found  # asked once a name: later ones do not come here
    return found
