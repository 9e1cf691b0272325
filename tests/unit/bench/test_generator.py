"""The load generator: its frames are real sends, and a stall of the broker is seen by every message it holds up."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import closing

from bench.generator import BATCH_MAX, Generator, Template
from rocketlake.codec.property_text import decode
from rocketlake.protocol.frame import FrameReader, decode_frame
from rocketlake.protocol.headers.send import read_send_header
from rocketlake.protocol.request_code import RequestCode

STALL_SECONDS = 0.3


def test_frames_are_sends_that_differ_where_they_must() -> None:
    template = Template("BenchmarkTest", range(100, 103), 1024)
    first = BATCH_MAX - 2
    # Across the end of a batch: those before it must be taken before the next are built.
    stream = bytes(template.frames(first, 2)) + bytes(template.frames(first + 2, 3))
    commands = [decode_frame(frame) for frame in FrameReader().feed(stream)]
    headers = [read_send_header(command) for command in commands]
    assert [command.code for command in commands] == [RequestCode.SEND_MESSAGE_V2] * 5
    assert [command.opaque for command in commands] == [first + number for number in range(5)]
    assert [header.queue_id for header in headers] == [100 + (first + number) % 3 for number in range(5)]
    assert {len(command.body) for command in commands} == {1024}
    keys = [decode(header.properties.encode())["UNIQ_KEY"] for header in headers if header.properties]
    assert [int(key[-8:], 16) for key in keys] == [first + number for number in range(5)]
    assert {len(key) for key in keys} == {32}


class StallingBroker:
    """Answers every frame with success, but holds all answers of one stretch of time; `refuse` refuses one message."""

    def __init__(self, stall_after: int, refuse: int = -1) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._stall_after, self._refuse = stall_after, refuse
        self.most_at_once = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        link, _ = self._listener.accept()
        reader, answered = FrameReader(), 0
        with link, self._listener:
            while chunk := link.recv(1 << 16):
                frames = reader.feed(chunk)
                self.most_at_once = max(self.most_at_once, len(frames))
                for frame in frames:
                    command = decode_frame(frame)
                    if answered == self._stall_after:
                        time.sleep(STALL_SECONDS)  # the stall itself, not a wait for something
                    answered += 1
                    code = 2 if command.opaque == self._refuse else 0
                    header = struct.pack(">hbhiiii", code, 0, 479, command.opaque, 1, 0, 0)
                    link.sendall(struct.pack(">ii", 4 + len(header), 1 << 24 | len(header)) + header)


def test_a_stall_is_seen_by_all_that_were_due_meanwhile() -> None:
    """A generator that waited for the broker would see one slow message of 500."""
    broker = StallingBroker(stall_after=100)
    with closing(Generator(broker.address, Template("T", range(8), 64), 1)) as generator:
        outcome = generator.open_loop(500, 0, 1.0)
    assert outcome.messages == 500
    assert outcome.unanswered == 0
    # 150 of 500 were due within the stall; the tenth part of all waited for two thirds of it at least.
    assert outcome.p99_ms >= 0.9 * STALL_SECONDS * 1000
    assert outcome.max_ms >= STALL_SECONDS * 1000


def test_refused_messages_are_counted_apart() -> None:
    broker = StallingBroker(stall_after=-1, refuse=7)
    with closing(Generator(broker.address, Template("T", range(8), 64), 1)) as generator:
        outcome = generator.open_loop(200, 0, 0.1)
    assert (outcome.messages, outcome.refused) == (19, 1)


def test_a_closed_loop_never_has_more_outstanding_than_its_window() -> None:
    broker = StallingBroker(stall_after=-1)
    with closing(Generator(broker.address, Template("T", range(8), 64), 1)) as generator:
        outcome = generator.closed_loop(4, 0, 0.1)
    assert outcome.messages == generator.sent > 4
    assert broker.most_at_once == 4
    assert outcome.unanswered == 0
