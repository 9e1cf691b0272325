"""`python -m bench.generator`: sends a load that does not wait for the broker, from one cheap process.

Owns        pre-built SEND_MESSAGE_V2 frames, when each is due, and the time from due to acknowledged.
Must not know   what the figures are compared with. Written apart from rocketlake's codec: it measures it.

Open loop (--rate): message n is due at start + n / rate, whatever the broker does; its latency counts from then, so a
stall shows in every message that would have been sent meanwhile (no coordinated omission). Closed loop (--window): so
many messages are outstanding, a new one goes out for each answer.

Frames are those of Apache's Java producer (binary header, properties with a unique key). They are copies of one
template; numpy writes opaque, born time, unique key and queue id into a whole batch at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TICK_SECONDS = 0.00025
"""Sends that fall due within a tick go out together: an error of at most this much, on both sides alike."""
BATCH_MAX = 256
DRAIN_SECONDS = 5.0
"""How long answers may come after the last send; what is not there by then counts as that late."""
REFUSED = -1.0
"""In place of the time of an answer."""
HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
ANSWER_START = struct.Struct(">iihbhi").unpack_from
Bytes = npt.NDArray[np.uint8]


class Template:
    """Frames of one form: the places in it that differ from message to message."""

    def __init__(
        self, topic: str, queues: Sequence[int], body_bytes: int, delay_level: int = 0, property: str = ""
    ) -> None:
        """`queues` must have equally many digits: the frames are equally long. Delay level 0: not delayed.

        `property`: name=value, of every message.
        """
        digits = {len(str(queue)) for queue in (queues[0], queues[-1])}
        if len(digits) != 1:
            raise ValueError(f"queues {queues[0]} to {queues[-1]} differ in their number of digits")
        self._queue_digits = digits.pop()
        self._queues = np.array([list(str(queue).encode()) for queue in queues], np.uint8)
        unique_key = b"7F000001BEEF18B4AAC2000000000000"
        delay = f"\x02DELAY\x01{delay_level}".encode() if delay_level else b""
        delay += ("\x02" + property.replace("=", "\x01", 1)).encode() if property else b""
        fields = {
            b"a": b"bench_generator", b"b": topic.encode(), b"c": b"TBW102", b"d": b"4",
            b"e": b"0" * self._queue_digits, b"f": b"0", b"g": b"0" * 13, b"h": b"0",
            b"i": b"UNIQ_KEY\x01" + unique_key + delay, b"j": b"0", b"k": b"false", b"m": b"false",
        }  # fmt: skip
        block = b""
        places = {}
        for name, value in fields.items():
            block += struct.pack(">h", len(name)) + name + struct.pack(">i", len(value))
            places[name] = len(block)
            block += value
        header = struct.pack(">hbhiiii", 310, 0, 409, 0, 0, 0, len(block)) + block
        body = (b"hello baby" * (body_bytes // 10 + 1))[:body_bytes]
        frame = struct.pack(">ii", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body
        self._frame = np.frombuffer(frame, np.uint8)
        start = 8 + len(header) - len(block)
        self._opaque_at = 13
        self._queue_at, self._born_at = start + places[b"e"], start + places[b"g"]
        self._key_at = start + places[b"i"] + len(b"UNIQ_KEY\x01") + len(unique_key) - 8
        self._batch: Bytes = np.tile(self._frame, (BATCH_MAX, 1))
        self._built = -1

    def frames(self, first: int, count: int) -> memoryview:
        """Messages `first` to `first + count - 1`, ready to send; good until the next call. All in one batch of
        BATCH_MAX, which is built when its first message is asked for: a numpy call costs more than a message."""
        if self._built != first // BATCH_MAX:
            self._build(first // BATCH_MAX)
        at = first % BATCH_MAX
        return self._batch[at : at + count].data.cast("B")

    def _build(self, number: int) -> None:
        self._built = number
        batch = self._batch
        numbers = np.arange(number * BATCH_MAX, (number + 1) * BATCH_MAX, dtype=np.uint32)
        quads = numbers.astype(">u4").view(np.uint8).reshape(BATCH_MAX, 4)
        batch[:, self._opaque_at : self._opaque_at + 4] = quads
        batch[:, self._key_at : self._key_at + 8 : 2] = HEX[quads >> 4]
        batch[:, self._key_at + 1 : self._key_at + 8 : 2] = HEX[quads & 15]
        born = str(int(time.time() * 1000)).encode()
        batch[:, self._born_at : self._born_at + 13] = np.frombuffer(born, np.uint8)
        queues = self._queues[numbers % len(self._queues)]
        batch[:, self._queue_at : self._queue_at + self._queue_digits] = queues


def json_opaque(data: bytes, at: int) -> tuple[int, int]:
    """Opaque and code of the answer that begins at `at`, without reading the rest of its JSON."""
    place = data.index(b'"opaque":', at) + 9
    end = place
    while data[end] in b"-0123456789":
        end += 1
    return int(data[place:end]), 0 if data.find(b'"code":0,', at, place) >= 0 else 1


class Link:
    """One connection: frames out, the opaque of each answer in."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.outstanding = 0
        self._unsent = bytearray()
        self._received = b""

    @property
    def blocked(self) -> bool:
        """The peer does not take more bytes now."""
        return bool(self._unsent)

    def send(self, frames: memoryview) -> None:
        if self._unsent:
            self._unsent += frames
            return
        try:
            sent = self.socket.send(frames)
        except BlockingIOError:
            sent = 0
        if sent < len(frames):
            self._unsent += frames[sent:]

    def go_on(self) -> None:
        """Send what could not be sent before."""
        with contextlib.suppress(BlockingIOError):
            del self._unsent[: self.socket.send(self._unsent)]

    def receive(self) -> tuple[list[int], list[int]]:
        """Opaques of the answers that came, and of those that refuse."""
        try:
            chunk = self.socket.recv(1 << 18)
        except BlockingIOError:
            return [], []
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data = self._received + chunk if self._received else chunk
        at, size, opaques, refused = 0, len(data), [], []
        while at + 17 <= size:
            length, mark, code, _language, _version, opaque = ANSWER_START(data, at)
            if at + 4 + length > size:
                break
            if mark >> 24 == 0:  # JSON: the broker answers in the codec it is set to, not in ours
                opaque, code = json_opaque(data, at)
            opaques.append(opaque)
            if code:
                refused.append(opaque)
            at += 4 + length
        self._received = data[at:]
        self.outstanding -= len(opaques)
        return opaques, refused


@dataclass(slots=True)
class Outcome:
    """Latencies in ms of the messages due in the measured time and not refused; `late_ms_p99`: our own delay."""

    seconds: float
    sends_per_second: float
    messages: int
    refused: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    late_ms_p99: float
    cpu_us_per_message: float


class Generator:
    """One run: warm up, then measure, then wait for the last answers."""

    def __init__(self, address: str, template: Template, connections: int) -> None:
        self._links = [Link(address) for _ in range(connections)]
        self._link_of = {link.socket.fileno(): link for link in self._links}
        self._numbers = list(self._link_of)
        self._template = template
        self._next_link = 0
        self.sent = 0

    def close(self) -> None:
        for link in self._links:
            link.socket.close()

    def _send(self, count: int) -> None:
        """The next `count` messages over the next connection."""
        while count:
            taken = min(count, BATCH_MAX - self.sent % BATCH_MAX)
            link = self._links[self._next_link]
            self._next_link = (self._next_link + 1) % len(self._links)
            link.send(self._template.frames(self.sent, taken))
            link.outstanding += taken
            self.sent += taken
            count -= taken

    def _turn(self, timeout: float, answered: npt.NDArray[np.float64]) -> int:
        """Wait for answers at most `timeout`, note when each came; how many did."""
        blocked = [number for number, link in self._link_of.items() if link.blocked]
        readable, writable, _ = select.select(self._numbers, blocked, (), max(0.0, timeout))
        for number in writable:
            self._link_of[number].go_on()
        count = 0
        for number in readable:
            opaques, refused = self._link_of[number].receive()
            if len(opaques) == 1:
                answered[opaques[0]] = time.monotonic()
            else:
                answered[opaques] = time.monotonic()
            if refused:
                answered[refused] = REFUSED
            count += len(opaques)
        return count

    def open_loop(self, rate: float, warm: float, seconds: float) -> Outcome:
        """`rate` messages a second for warm + seconds."""
        total = int(rate * (warm + seconds))
        answered, left = np.zeros(total), np.zeros(total)
        begin = time.monotonic() + 0.05
        due = begin + np.arange(total) / rate
        while self.sent < total:
            now = time.monotonic()
            count = min(int((now - begin) * rate) + 1, total) - self.sent if now >= begin else 0
            if count > 0:
                left[self.sent : self.sent + count] = now
                self._send(count)
            next_due = begin + self.sent / rate
            self._turn(max(next_due - time.monotonic(), TICK_SECONDS), answered)
        self._drain(answered)
        first = int(rate * warm)
        return self._outcome(due[first:], left[first:], answered[first:])

    def closed_loop(self, window: int, warm: float, seconds: float, most: int | None = None) -> Outcome:
        """`window` messages outstanding for warm + seconds, or until `most` were sent."""
        capacity = 1 << 20
        answered, left = np.zeros(capacity), np.zeros(capacity)
        begin = time.monotonic()
        first, credit = -1, window
        while (now := time.monotonic()) < begin + warm + seconds and self.sent != most:
            credit = credit if most is None else min(credit, most - self.sent)
            if first < 0 and now >= begin + warm:
                first = self.sent
            if self.sent + credit > len(left):
                answered, left = (np.concatenate([array, np.zeros(len(array))]) for array in (answered, left))
            left[self.sent : self.sent + credit] = now
            self._send(credit)
            credit = self._turn(1.0, answered)
        self._drain(answered)
        sent = left[first : self.sent]
        return self._outcome(sent, sent, answered[first : self.sent])

    def _drain(self, answered: npt.NDArray[np.float64]) -> None:
        end = time.monotonic() + DRAIN_SECONDS
        while any(link.outstanding for link in self._links) and time.monotonic() < end:
            self._turn(0.1, answered)

    def _outcome(
        self, due: npt.NDArray[np.float64], left: npt.NDArray[np.float64], answered: npt.NDArray[np.float64]
    ) -> Outcome:
        refused = answered == REFUSED
        due, left, answered = due[~refused], left[~refused], answered[~refused]
        missing = answered == 0
        answered = np.where(missing, time.monotonic(), answered)
        latency = (answered - due) * 1000
        p50, p99, p999, largest = (float(np.percentile(latency, share)) for share in (50, 99, 99.9, 100))
        span = float(answered.max() - due[0])
        count = len(due)
        return Outcome(
            seconds=round(span, 3),
            sends_per_second=round((count - int(missing.sum())) / span, 1),
            messages=count,
            refused=int(refused.sum()),
            unanswered=int(missing.sum()),
            p50_ms=round(p50, 3),
            p99_ms=round(p99, 3),
            p999_ms=round(p999, 3),
            max_ms=round(largest, 3),
            late_ms_p99=round(float(np.percentile((left - due) * 1000, 99)), 3),
            cpu_us_per_message=round(time.process_time() * 1e6 / max(1, self.sent), 2),
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.generator")
    parser.add_argument("broker", help="host:port")
    parser.add_argument("--rate", type=float, help="open loop: messages a second")
    parser.add_argument("--window", type=int, help="closed loop: messages outstanding")
    parser.add_argument("--topic", default="BenchmarkTest")
    parser.add_argument("--queues", default="100-999", help="queue ids, first-last, equally many digits")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--delay-level", type=int, default=0)
    parser.add_argument("--property", default="", help="name=value, of every message")
    parser.add_argument("--messages", type=int, help="closed loop: end after so many")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--warm", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    if (options.rate is None) == (options.window is None):
        parser.error("give --rate (open loop) or --window (closed loop)")
    low, high = (int(part) for part in options.queues.split("-"))
    template = Template(options.topic, range(low, high + 1), options.body_bytes, options.delay_level, options.property)
    with contextlib.closing(Generator(options.broker, template, options.connections)) as generator:
        if options.rate is not None:
            outcome = generator.open_loop(options.rate, options.warm, options.seconds)
        else:
            outcome = generator.closed_loop(options.window, options.warm, options.seconds, options.messages)
    print(json.dumps({name: getattr(outcome, name) for name in Outcome.__slots__}), flush=True)


if __name__ == "__main__":
    main()
