"""Owns the few requests the harness makes itself, over a plain blocking socket with a JSON header.

Must not know   which side answers. It is written apart from rocketlake's codec on purpose: both sides are asked alike.
"""

from __future__ import annotations

import hmac
import json
import re
import socket
import struct
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

UPDATE_AND_CREATE_TOPIC, GET_BROKER_RUNTIME_INFO = 17, 28
GET_ROUTE_INFO = 105
GET_TOPIC_STATS_INFO = 202


_user: list[tuple[str, str]] = []


@contextmanager
def signed_as(name: str, secret: str) -> Iterator[None]:
    """Sign each request in the block as this user."""
    _user.append((name, secret))
    try:
        yield
    finally:
        _user.pop()


def frame(code: int, fields: dict[str, str], body: bytes = b"", opaque: int = 1) -> bytes:
    """One request as bytes."""
    if _user:
        name, secret = _user[-1]
        fields = {**fields, "AccessKey": name}
        content = "".join(fields[key] for key in sorted(fields)).encode() + body
        fields["Signature"] = b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()
    header = json.dumps(
        {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 479, "extFields": fields}
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def receive_frame(link: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The next answer: header and body."""
    (size,) = struct.unpack(">i", _receive(link, 4))
    rest = _receive(link, size)
    header_size = struct.unpack(">i", rest[:4])[0] & 0xFFFFFF
    return json.loads(rest[4 : 4 + header_size]), rest[4 + header_size :]


def _receive(link: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = link.recv(size - len(parts))
        if not part:
            raise ConnectionError("the peer closed the connection")
        parts += part
    return bytes(parts)


def connect(address: str, timeout: float = 30) -> socket.socket:
    host, port = address.split(":")
    link = socket.create_connection((host, int(port)), timeout=timeout)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def ask(
    address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b""
) -> tuple[dict[str, Any], bytes]:
    """One request, one answer, over a connection of its own; an error code raises."""
    with connect(address) as link:
        link.sendall(frame(code, fields or {}, body))
        header, body = receive_frame(link)
    if header["code"]:
        raise RuntimeError(f"{address} answered {header['code']} to request {code}: {header.get('remark')}")
    return header, body


def runtime_info(broker: str, seconds: float = 10) -> dict[str, str]:
    """The broker's own figures, such as putMessageTimesTotal and commitLogMaxOffset.

    Apache's broker refuses in its first second (no sample yet to make a rate of): asked again.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            _header, body = ask(broker, GET_BROKER_RUNTIME_INFO)
            return dict(json.loads(body)["table"])
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def messages_of(broker: str, topic: str) -> int:
    """Messages that ever came into the queues of a topic."""
    _header, body = ask(broker, GET_TOPIC_STATS_INFO, {"topic": topic})
    # Its JSON has objects as keys, which no parser of Python takes.
    return sum(map(int, re.findall(rb'"maxOffset":(\d+)', body)))


def create_topic(broker: str, namesrv: str, topic: str, queues: int, seconds: float = 30) -> None:
    """Create the topic and wait until the name server names it."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    ask(broker, UPDATE_AND_CREATE_TOPIC, fields)
    await_route(namesrv, topic, broker, seconds)


def await_route(namesrv: str, topic: str, broker: str, seconds: float = 30) -> None:
    """Wait until the name server names this broker for the topic: a broker serves before it is registered."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            _header, body = ask(namesrv, GET_ROUTE_INFO, {"topic": topic})
            if broker.encode() in body:
                return
        except RuntimeError:
            pass  # not known yet
        time.sleep(0.05)
    raise RuntimeError(f"{namesrv} has no route of {topic} to {broker} after {seconds:.0f} s")


def seconds_to_first_send(address: str, began: float, limit: float = 120) -> float:
    """Seconds from `began` to the first acknowledged send of one small message, trying every 5 ms."""
    fields = {"a": "bench_start", "b": "BenchmarkTest", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    fields |= {"g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    request = frame(310, fields, b"x")
    while time.monotonic() < began + limit:
        try:
            # A broker that accepts before it can serve may never answer: a long wait would be counted as its start.
            with connect(address, timeout=0.25) as link:
                link.sendall(request)
                if receive_frame(link)[0]["code"] == 0:
                    return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.005)
    raise RuntimeError(f"no acknowledged send at {address} within {limit:.0f} s")
