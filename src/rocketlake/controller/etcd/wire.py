"""The JSON of etcd's gateway: keys and values in base64, 64-bit numbers as texts, defaults left out.

Owns        the forms of the requests that we send, and of the answers, as far as we read them.
Must not know   the network, when a request is sent.

Values are given and taken as bytes. What an answer has beyond these fields is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from rocketlake.base.errors import ProtocolError

__all__ = [
    "Authenticated",
    "Failure",
    "Header",
    "KeyValue",
    "RangeAnswer",
    "SwapAnswer",
    "Version",
    "WatchLine",
    "authenticate_body",
    "changes_body",
    "key_body",
    "prefix_body",
    "prefix_end",
    "read_answer",
    "read_failure",
    "swap_body",
    "watch_body",
]


class Header(msgspec.Struct):
    """At the head of each answer: who gave it, and how far it had seen the cluster's history."""

    cluster_id: int = 0
    member_id: int = 0
    revision: int = 0
    raft_term: int = 0


class KeyValue(msgspec.Struct):
    """A key as of one revision."""

    key: bytes = b""
    value: bytes = b""
    mod_revision: int = 0


class RangeAnswer(msgspec.Struct):
    """Of /v3/kv/range."""

    header: Header = msgspec.field(default_factory=Header)
    kvs: list[KeyValue] = []


class SwapBranch(msgspec.Struct):
    """The answer to one operation of a transaction."""

    response_range: RangeAnswer | None = None


class SwapAnswer(msgspec.Struct):
    """Of /v3/kv/txn with the body of `swap_body`."""

    header: Header = msgspec.field(default_factory=Header)
    succeeded: bool = False
    responses: list[SwapBranch] = []

    @property
    def found(self) -> KeyValue:
        """After a failed comparison: the key as it is; its revision is 0 if there is none."""
        kvs = [kv for branch in self.responses if branch.response_range for kv in branch.response_range.kvs]
        return kvs[0] if kvs else KeyValue()


class Version(msgspec.Struct):
    """Of /version, which a member answers without an account and without its leader."""

    etcdserver: str = ""


class Authenticated(msgspec.Struct):
    """Of /v3/auth/authenticate."""

    header: Header = msgspec.field(default_factory=Header)
    token: str = ""


class Event(msgspec.Struct):
    """One change that a watch tells."""

    kv: KeyValue = msgspec.field(default_factory=KeyValue)


class WatchResult(msgspec.Struct):
    """What one line of a watch tells."""

    header: Header = msgspec.field(default_factory=Header)
    created: bool = False
    canceled: bool = False
    cancel_reason: str = ""
    events: list[Event] = []


class Failure(msgspec.Struct):
    """A refusal: a code of gRPC and a text. The gateways of 3.4 to 3.7 name the fields differently."""

    code: int = 2
    grpc_code: int = 0
    message: str = ""

    @property
    def number(self) -> int:
        """The code of gRPC."""
        return self.grpc_code or self.code


class WatchLine(msgspec.Struct):
    """One line of /v3/watch."""

    result: WatchResult | None = None
    error: Failure | None = None


_Form = TypeVar("_Form", RangeAnswer, SwapAnswer, Version, Authenticated, WatchLine)


def read_answer(body: bytes, form: type[_Form]) -> _Form:
    """An answer of status 200, or a line of a watch. Raises ProtocolError."""
    try:
        return msgspec.json.decode(body, type=form, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"etcd's answer cannot be read: {error}") from None


def read_failure(body: bytes) -> Failure | None:
    """The body of any other status; None if it is not etcd's (a proxy's page)."""
    try:
        return msgspec.json.decode(body, type=Failure, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix, as etcd's range_end; b"\\0", which means no end, without one."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else b"\0"


def prefix_body(prefix: bytes) -> bytes:
    """For /v3/kv/range: all keys with this prefix, read by way of the leader."""
    return _body(_prefix(prefix))


def changes_body(prefix: bytes, since: int) -> bytes:
    """For /v3/kv/range: the keys with this prefix that changed at revision `since` or later, without values."""
    return _body({**_prefix(prefix), "min_mod_revision": str(since), "keys_only": True})


def key_body(key: bytes, revision: int) -> bytes:
    """For /v3/kv/range: one key as it was at `revision`."""
    return _body({"key": key, "revision": str(revision)})


def swap_body(key: bytes, revision: int, value: bytes, also: Mapping[bytes, bytes | None]) -> bytes:
    """For /v3/kv/txn: if `key` is at `revision` put it and `also`, else get it. One transaction, so through Raft.

    A None in `also` removes the key.
    """
    changes = [
        {"request_delete_range": {"key": name}} if content is None else {"request_put": {"key": name, "value": content}}
        for name, content in ((key, value), *also.items())
    ]
    return _body(
        {
            "compare": [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}],
            "success": changes,
            "failure": [{"request_range": {"key": key}}],
        }
    )


def watch_body(prefix: bytes, since: int) -> bytes:
    """For /v3/watch: every change of keys with this prefix from revision `since` on, without values."""
    return _body({"create_request": {**_prefix(prefix), "start_revision": str(since)}})


def authenticate_body(user: str, password: str) -> bytes:
    """For /v3/auth/authenticate."""
    return _body({"name": user, "password": password})


def _prefix(prefix: bytes) -> dict[str, Any]:
    return {"key": prefix or b"\0", "range_end": prefix_end(prefix)}


def _body(content: dict[str, Any]) -> bytes:
    return msgspec.json.encode(content)
