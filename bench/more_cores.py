"""`python -m bench.more_cores`: batches into one broker, and into two of `rocketlake run brokers -n 2`, by turns.

Owns        a producer that costs little: frames made before, a window of them on one link to each broker.
Must not know   Apache: it has one process for a broker, too, and its threads share the cores.

A batch is 32 messages in one SEND_BATCH_MESSAGE. Counted is what the brokers say that they have stored.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import wire
from bench.__main__ import machine, result_path
from bench.process import cpu_seconds, family
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.request_code import RequestCode

TOPIC, QUEUES = "MoreCores", 8
PER_BATCH = 32
FRAMES = 256
"""Made before, with different keys; they are sent in turns."""
WINDOW = 16
"""Batches on the way on each link."""
ANSWERS_BYTES = 1024
"""The producer is woken by some answers, not by each: it costs the brokers their cores. A window has more of them."""

_ADDRESS = re.compile(r"(?:is up at |^  bench-\d +)(127\.0\.0\.1:\d+)")


def frames(body_bytes: int) -> list[bytes]:
    made = []
    for number in range(FRAMES):
        keys = [f"7F000001BEEF18B4AAC2{number * PER_BATCH + each:012X}" for each in range(PER_BATCH)]
        batch = [Message.with_properties(TOPIC, b"x" * body_bytes, {"UNIQ_KEY": key, "WAIT": "true"}) for key in keys]
        header = SendHeaderV2(
            producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=number % QUEUES, sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, properties="",
            reconsume_times=0, unit_mode=False, batch=True,
        )  # fmt: skip
        command = Command.request(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(batch))
        made.append(b"".join(map(bytes, encode_command(command, Codec.ROCKETMQ))))
    return made


class Link:
    """A window of batches to one broker."""

    def __init__(self, address: str, made: Sequence[bytes]) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, ANSWERS_BYTES)
        self.socket.setblocking(False)
        self.wants = selectors.EVENT_READ
        self._made = made
        self._number = 0
        self._on_the_way = 0
        self._unsent: list[memoryview] = []
        self._received = bytearray(1 << 16)
        self._end = 0
        """How much of an answer that is not whole is kept at the start of `_received`."""

    def go_on(self) -> bool:
        """Take answers, send what the window leaves; True if `wants` is another one now."""
        self._take()
        while self._on_the_way < WINDOW:
            self._unsent.append(memoryview(self._made[self._number % FRAMES]))
            self._number += 1
            self._on_the_way += 1
        self._send()
        wanted, self.wants = self.wants, selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        return wanted != self.wants

    def _send(self) -> None:
        while self._unsent:
            try:
                sent = self.socket.sendmsg(self._unsent)
            except BlockingIOError:
                return
            while self._unsent and sent >= len(self._unsent[0]):
                sent -= len(self._unsent.pop(0))
            if sent:
                self._unsent[0] = self._unsent[0][sent:]

    def _take(self) -> None:
        data = memoryview(self._received)
        try:
            end = self._end + self.socket.recv_into(data[self._end :])
        except BlockingIOError:
            return
        at = 0
        while end - at >= 4 and end - at >= (size := 4 + int.from_bytes(data[at : at + 4], "big")):
            self._on_the_way -= 1
            at += size
        self._end = end - at
        data[: self._end] = bytes(data[at:end])


@contextmanager
def brokers(count: int, folder: Path) -> Iterator[tuple[list[str], list[int]]]:
    """Addresses and process ids of so many brokers, which have the topic."""
    rocketlake = [sys.executable, "-m", "rocketlake"]
    with subprocess.Popen(
        [*rocketlake, "run", "namesrv", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as namesrv:
        assert namesrv.stdout is not None
        address = namesrv.stdout.readline().split(" is up at ")[1].partition(";")[0]
        conf = folder / "broker.conf"
        conf.write_text(f"brokerName=bench\nlistenPort=0\nnamesrvAddr={address}\nstorePathRootDir={folder / 'store'}\n")
        several = ["run", "brokers", "-n", str(count)] if count > 1 else ["run", "broker"]
        with subprocess.Popen(
            [*rocketlake, *several, "-c", str(conf)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout is not None
                addresses: list[str] = []
                line = ""
                while not addresses or "Ctrl-C" not in line:
                    line = process.stdout.readline()
                    assert line, "the brokers do not start"
                    addresses += [found.group(1) for found in [_ADDRESS.search(line)] if found]
                command = [*rocketlake, "topic", "create", TOPIC, "--queues", str(QUEUES), "-n", address]
                subprocess.run(command, check=True, capture_output=True)
                yield addresses, family(process.pid)
            finally:
                process.terminate()
                process.wait()
                namesrv.terminate()


def run(count: int, seconds: float, warm: float, made: Sequence[bytes]) -> dict[str, float]:
    """Messages a second, CPU of the brokers and of the producer a message."""
    with (
        tempfile.TemporaryDirectory(prefix="rocketlake-cores-") as name,
        brokers(count, Path(name)) as (addresses, ids),
    ):
        links = [Link(address, made) for address in addresses]
        _send(links, warm)
        before = _stored(addresses), sum(map(cpu_seconds, ids)), time.process_time()
        began = time.monotonic()
        _send(links, seconds)
        took = time.monotonic() - began
        stored, cpu, own = (
            _stored(addresses) - before[0], sum(map(cpu_seconds, ids)) - before[1], time.process_time() - before[2],
        )  # fmt: skip
        return {
            "messages_per_second": round(stored / took),
            "broker_cpu_us": round(cpu * 1e6 / stored, 2),
            "producer_cpu_us": round(own * 1e6 / stored, 2),
        }


def _stored(addresses: Sequence[str]) -> int:
    return sum(wire.messages_of(address, TOPIC) for address in addresses)


def _send(links: Sequence[Link], seconds: float) -> None:
    until = time.monotonic() + seconds
    selector = selectors.DefaultSelector()
    for link in links:
        link.go_on()
        selector.register(link.socket, link.wants, link)
    while time.monotonic() < until:
        for key, _ in selector.select(0.1):
            if key.data.go_on():
                selector.modify(key.fileobj, key.data.wants, key.data)
    selector.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.more_cores")
    parser.add_argument("--brokers", type=int, default=min(os.cpu_count() or 2, 8), help="beside one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--body", type=int, default=100, help="bytes")
    options = parser.parse_args()
    made = frames(options.body)
    runs: dict[int, list[dict[str, float]]] = {1: [], options.brokers: []}
    for number in range(options.rounds):
        for count in runs if number % 2 == 0 else reversed(runs):
            runs[count].append(run(count, options.seconds, options.warm, made))
            print(f"{count} broker(s): {runs[count][-1]}", flush=True)
    one, several = (statistics.median(each["messages_per_second"] for each in runs[count]) for count in runs)
    print(f"{options.brokers} brokers take {several / one:.2f}x of one")
    result = {"machine": machine(), "options": vars(options), "runs": runs, "ratio": round(several / one, 3)}
    target = result_path("more-cores")
    target.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
