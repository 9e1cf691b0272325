"""`python -m bench.puller`: a consumer that reads every queue of a topic from its start, as cheaply as can be.

Owns        pull requests as Apache's push consumer sends them, one outstanding for each queue, over one connection.
Must not know   messages: the bodies of answers are counted by what the answer says, and dropped.

A consumer works on its own machine. On this one it would take turns with broker and generator on the same few cores,
and the scheduler would be measured: Apache's consumer keeps both of them busy, whatever priority it has. This one takes
a tenth of one, and asks the broker for the same.

Prints `ms=<clock> received=<messages>` ten times a second.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import time

from bench.wire import connect

PULL_MESSAGE = 11
PULL_SUSPEND_WITH_SUBSCRIPTION = 2 | 4
BATCH = 32
HOLD_MS = 15_000
CHUNK_BYTES = 1 << 18
PRINT_SECONDS = 0.1


class Puller:
    """All queues of one topic; `received` counts queue entries passed, which are messages, as no tag is left out."""

    def __init__(self, broker: str, topic: str, queues: int, group: str) -> None:
        self.received = 0
        self._link: socket.socket = connect(broker)
        self._offsets = [0] * queues
        self._asked = {
            "consumerGroup": group, "topic": topic, "queueId": "{queue}", "queueOffset": "{offset}",
            "maxMsgNums": str(BATCH), "sysFlag": str(PULL_SUSPEND_WITH_SUBSCRIPTION), "commitOffset": "0",
            "suspendTimeoutMillis": str(HOLD_MS), "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip

    def run(self) -> None:
        """Read until killed."""
        self._link.sendall(b"".join(self._request(queue) for queue in range(len(self._offsets))))
        self._link.settimeout(PRINT_SECONDS)
        buffer = bytearray()
        printed = 0.0
        while True:
            if time.monotonic() - printed >= PRINT_SECONDS:
                printed = time.monotonic()
                print(f"ms={int(printed * 1000)} received={self.received}", flush=True)
            try:
                chunk = self._link.recv(CHUNK_BYTES)
            except TimeoutError:
                continue
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            buffer += chunk
            del buffer[: self._take(buffer)]

    def _take(self, buffer: bytearray) -> int:
        """Look at the whole answers in the buffer and ask again; where they end."""
        at = 0
        again = []
        while at + 8 <= len(buffer):
            size, mark = struct.unpack_from(">iI", buffer, at)
            if at + 4 + size > len(buffer):
                break
            header = read_header(bytes(buffer[at + 8 : at + 8 + (mark & 0xFFFFFF)]), is_json=not mark >> 24)
            queue, next_offset = header
            self.received += max(0, next_offset - self._offsets[queue])
            self._offsets[queue] = next_offset
            again.append(self._request(queue))
            at += 4 + size
        if again:
            self._link.sendall(b"".join(again))
        return at

    def _request(self, queue: int) -> bytes:
        numbers = {"queueId": str(queue), "queueOffset": str(self._offsets[queue])}
        block = b""
        for name, value in (self._asked | numbers).items():
            block += struct.pack(f">h{len(name)}si{len(value)}s", len(name), name.encode(), len(value), value.encode())
        header = struct.pack(">hbhiiii", PULL_MESSAGE, 0, 409, queue, 0, 0, len(block)) + block
        return struct.pack(">iI", 4 + len(header), 1 << 24 | len(header)) + header


def read_header(header: bytes, *, is_json: bool) -> tuple[int, int]:
    """The opaque of an answer, which is the queue it was asked for, and the next offset of that queue."""
    if is_json:
        read = json.loads(header)
        return read["opaque"], int(read["extFields"]["nextBeginOffset"])
    _code, _language, _version, opaque, _flag, remark = struct.unpack_from(">hbhiii", header)
    at = 17 + remark + 4
    while True:
        (name_size,) = struct.unpack_from(">h", header, at)
        value_at = at + 2 + name_size + 4
        (value_size,) = struct.unpack_from(">i", header, value_at - 4)
        if header[at + 2 : at + 2 + name_size] == b"nextBeginOffset":
            return opaque, int(header[value_at : value_at + value_size])
        at = value_at + value_size


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.puller")
    parser.add_argument("broker", help="host:port")
    parser.add_argument("topic")
    parser.add_argument("--queues", type=int, default=1024)
    parser.add_argument("--group", default="bench_puller")
    options = parser.parse_args()
    Puller(options.broker, options.topic, options.queues, options.group).run()


if __name__ == "__main__":
    main()
