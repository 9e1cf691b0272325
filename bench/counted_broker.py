"""`python -m bench.counted_broker FOLDER`: a broker in this process that is fed the play in FOLDER (counted_plays.py).

Owns        the broker, its two connections, where the counted part begins and ends.
Must not know   which requests a play is made of; modules of RocketLake that may have another name in another checkout.

What is not the broker's costs next to nothing here, so that a ratio of two counts is one of brokers: chunks are handed
to its links without a socket or a task, and answers are looked at when the counting has ended. No timer of the broker
fires and no time passes for it: under valgrind a request takes fifty times as long, so timers would fire fifty times as
often a message, and the turn of a link would end after one request.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from rocketlake.base.clock import SystemClock
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.store.config import StoreConfig

__all__ = ["main"]

Step = tuple[int, bytes, int, int]
"""See counted_plays.py."""


class StandingClock(SystemClock):
    """A monotonic clock that stands still, at no more cost than the real one; sleepers sleep for ever."""

    monotonic = itertools.repeat(1000.0).__next__

    async def sleep(self, seconds: float) -> None:
        """One turn of the loop for 0 or less; no return for more."""
        if seconds > 0:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)


class Connection(asyncio.Transport):
    """The client's end of a connection, which is the transport of the broker's link."""

    def __init__(self, link: asyncio.Protocol, arrived: Callable[[], None]) -> None:
        super().__init__({"peername": ("10.0.0.1", 40_000)})
        self.link = link
        self.is_awaited = False
        self._arrived = arrived
        self._received: list[bytes] = []
        link.connection_made(self)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._received.append(b"".join(list_of_data))
        if self.is_awaited:
            self.is_awaited = False
            self._arrived()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.link = cast(asyncio.Protocol, protocol)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def take_answers(self) -> int:
        """How many answers came since the last call; each must be a success."""
        data, at, count = b"".join(self._received), 0, 0
        self._received.clear()
        while at < len(data):
            size = 4 + int.from_bytes(data[at : at + 4], "big")
            frame = data[at : at + size]
            at += size
            is_json = frame[4] == 0
            if is_json and b'"flag":1' not in frame:
                continue  # the broker tells a consumer that members of its group came
            if (b'"code":0,' not in frame) if is_json else frame[8:10] != b"\0\0":
                raise RuntimeError(f"not a success: {frame!r}")
            count += 1
        return count


class OneProcess:
    """A network whose connections are made and fed by a Player. `port`: of its listener."""

    port = 10911

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> OneProcess:
        self.make_link = make_link
        return self

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        raise RuntimeError(f"a counted broker does not connect to {host}:{port}")

    async def close(self) -> None:
        pass


class Player:
    """Takes steps in order, each in a turn of the loop of its own, when answers to the one before have come."""

    def __init__(self, net: OneProcess) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections = [Connection(net.make_link(), self._arrived) for _ in range(2)]
        self._steps: Iterator[Step]
        self._done: asyncio.Future[None]

    async def play(self, steps: list[Step]) -> None:
        """Take all these steps."""
        self._steps, self._done = iter(steps), self._loop.create_future()
        self._go_on()
        await self._done

    def check(self, steps: list[Step]) -> None:
        """Did each connection get the answers to these steps, which have just been played, and no others?"""
        found = [connection.take_answers() for connection in self._connections]
        wanted = [sum(step[2] for step in steps), sum(step[3] for step in steps)]
        if found != wanted:
            raise RuntimeError(f"{found} answers came to the two connections, not {wanted}")

    def _arrived(self) -> None:
        if not any(connection.is_awaited for connection in self._connections):
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self._done.set_result(None)
            return
        number, chunk, *answers = step
        for connection, count in zip(self._connections, answers, strict=True):
            connection.is_awaited = count > 0
        self._connections[number].link.data_received(chunk)
        if not any(answers):
            self._loop.call_soon(self._go_on)


def mark() -> None:
    """Call the C function at which instructions.py lets callgrind begin a new part; no other code calls it."""
    os.getpgid(0)


async def come_to_rest(broker: Broker) -> None:
    """Wait for the threads of the store: they make the files of 900 queues, which the counted part only appends to."""
    for worker in broker.store._workers.values():
        rests: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        worker.submit(lambda: None, lambda _result, _error, rests=rests: rests.set_result(None))  # type: ignore[misc]
        await rests


async def play(folder: Path, prepare: list[Step], counted: list[Step]) -> None:
    """Start a broker, prepare it, mark, play the counted part, mark."""
    net = OneProcess()
    config = BrokerConfig(listen_port=net.port, fast_listen_port=0, store_root=folder / "store")
    broker = Broker(config, StoreConfig(), network=net, clock=StandingClock())
    await broker.start()
    player = Player(net)
    await player.play(prepare)
    player.check(prepare)
    await come_to_rest(broker)
    mark()
    await player.play(counted)
    mark()
    player.check(counted)
    os._exit(0)  # a broker that no timer reaches cannot stop


def main() -> None:
    folder = Path(sys.argv[1])
    prepare, counted = pickle.loads((folder / "play").read_bytes())  # noqa: S301 (instructions.py has just written it)
    asyncio.run(play(folder, prepare, counted))


if __name__ == "__main__":
    main()
