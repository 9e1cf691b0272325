"""`python -m bench.micro.client`: CPU of one client process per message, sending to and reading from a broker of ours.

Owns        the ways to send and to read that are measured, and the client's own CPU time around each.
Must not know   other clients and brokers (bench/).

The broker runs in a process of its own, so that `time.process_time` is the client's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvloop

from rocketlake import ConsumerConfig, FirstOffset, Message, Producer, PushConsumer
from rocketlake.client.consumer.pull import PullConsumer
from rocketlake.model.message import StoredMessage

TOPIC = "ClientBench"
BODY = bytes(range(256)) * 4


@contextmanager
def broker() -> Iterator[str]:
    """Name server and broker in one process of their own; gives the name server's address."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-client-") as folder:
        command = [sys.executable, "-m", "rocketlake", "up", "-d", folder, "--namesrv-port", "0", "--broker-port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            for line in server.stdout:
                found = re.search(r"name server +(\S+)", line)
                if found:
                    break
            else:
                raise RuntimeError("the broker did not start")
            yield found.group(1)
        finally:
            server.terminate()
            server.wait(30)


async def send(producer: Producer, messages: int, senders: int) -> None:
    """`senders` tasks, each waits for its answer before its next message."""

    async def one(count: int) -> None:
        for _ in range(count):
            await producer.send(Message(TOPIC, BODY, keys="key", tags="tag"))

    await asyncio.gather(*(one(messages // senders) for _ in range(senders)))


async def send_nowait(producer: Producer, messages: int, senders: int) -> None:
    """One task; `senders` messages are on their way at once."""
    room = asyncio.Semaphore(senders)
    for _ in range(messages):
        await room.acquire()
        producer.send_nowait(Message(TOPIC, BODY, keys="key", tags="tag"), lambda result, error: room.release())
    await producer.flush()


async def send_oneway(producer: Producer, messages: int, senders: int) -> None:
    """One task, no answers."""
    for number in range(messages):
        await producer.send_oneway(Message(TOPIC, BODY, keys="key", tags="tag"))
        if number % senders == 0:
            await asyncio.sleep(0)


async def send_batch(producer: Producer, messages: int, senders: int) -> None:
    """32 messages a request."""
    for _ in range(messages // 32):
        await producer.send_batch([Message(TOPIC, BODY, keys="key", tags="tag") for _ in range(32)])


async def push(namesrv: str, messages: int, batch_size: int) -> None:
    """An async listener."""
    seen = 0
    done = asyncio.Event()

    async def listener(batch: list[StoredMessage]) -> None:
        nonlocal seen
        for message in batch:
            seen += len(message.body) == len(BODY)
        if seen >= messages:
            done.set()

    consumer = PushConsumer(
        f"push{batch_size}", namesrv=namesrv, listener=listener, from_where=FirstOffset.FIRST,
        config=ConsumerConfig(batch_size=batch_size),
    )  # fmt: skip
    consumer.subscribe(TOPIC)
    async with consumer:
        await done.wait()


async def poll(namesrv: str, messages: int) -> None:
    """The pull consumer."""
    consumer = PullConsumer("poll", namesrv=namesrv, from_where="first")
    consumer.subscribe(TOPIC)
    seen = 0
    async with consumer:
        while seen < messages:
            seen += len(await consumer.poll())


Timed = Callable[[str, int, Callable[[], Awaitable[None]]], Awaitable[None]]


def timed(profile: str) -> Timed:
    """Runs a case and prints CPU of this process and rate; the case named `profile` runs under cProfile."""

    async def run(name: str, messages: int, case: Callable[[], Awaitable[None]]) -> None:
        profiler = cProfile.Profile() if name == profile else None
        if profiler:
            profiler.enable()
        wall, cpu = time.perf_counter(), time.process_time()
        await case()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if profiler:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        per_message = cpu / messages * 1e6
        rates = f"{1e6 / per_message:10,.0f}/s of CPU{messages / wall:10,.0f}/s"
        print(f"{name:28}{per_message:8.1f} us CPU{rates}", flush=True)

    return run


async def measure(options: argparse.Namespace) -> None:
    """All cases whose name holds `options.only`."""
    run = timed(options.profile)
    total = options.messages
    with broker() as namesrv:
        async with Producer("ClientBench", namesrv=namesrv) as producer:
            await send(producer, 512, 64)  # makes the topic, warms up
            for case in (send, send_nowait, send_oneway, send_batch):
                for senders in (64, 256) if case is send else (256,):
                    name = f"{case.__name__} {senders}" if case is send else case.__name__
                    if options.only in name:
                        await run(name, total, partial(case, producer, total, senders))
            if any(options.only in name for name in ("push 32", "push 1", "poll")):
                for _ in range(options.backlog // 32 // 64 + 1):
                    await asyncio.gather(
                        *(producer.send_batch([Message(TOPIC, BODY, keys="key", tags="tag")] * 32) for _ in range(64))
                    )
        for batch_size in (32, 1):
            if options.only in f"push {batch_size}":
                await run(f"push {batch_size}", options.backlog, partial(push, namesrv, options.backlog, batch_size))
        if options.only in "poll":
            await run("poll", options.backlog, partial(poll, namesrv, options.backlog))


def main() -> None:
    """Print a line per case."""
    arguments = argparse.ArgumentParser(prog="python -m bench.micro.client")
    arguments.add_argument("--messages", type=int, default=20_480)
    arguments.add_argument("--backlog", type=int, default=60_000)
    arguments.add_argument("--only", default="", help="cases whose name holds this")
    arguments.add_argument("--profile", default="", help="run the case of this name under cProfile")
    arguments.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = arguments.parse_args()
    (uvloop.run if options.loop == "uvloop" else asyncio.run)(measure(options))


if __name__ == "__main__":
    main()
