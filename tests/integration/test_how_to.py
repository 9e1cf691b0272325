"""The how-to pages of the client and the command line do what they say, run as they are written."""

from __future__ import annotations

import asyncio
import contextlib
import re
import runpy
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Consumer, FirstOffset, Message, Producer
from rocketlake.base.errors import RocketLakeError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed
from tests.tidy.tree import ROOT

HOW_TO = ROOT / "docs" / "how-to"
EXAMPLES = re.findall(r"```python\n(.*?)```", (HOW_TO / "client.md").read_text(), re.DOTALL)
COMMANDS = re.findall(
    r"^    (.*\brocketlake (?:topic|produce|consume|group) .*)$", (HOW_TO / "cli.md").read_text(), re.MULTILINE
)
ANSWERED_IN_SECONDS = 60


class Left(Exception):
    """Raised by a function of the reader: the example would read messages for ever."""


class Reader:
    """The functions that a page leaves to its reader, and which of them were called."""

    def __init__(self, is_async: bool) -> None:
        self.called: set[str] = set()
        self._is_ready = asyncio.Event()
        self._loop = asyncio.get_running_loop() if is_async else None
        self.names: dict[str, Any] = {
            "alarm": print,
            "book": self.book if is_async else self.book_now,
            "forever": self.forever,
            "is_booked": self.is_booked,
            "listener": self.ready_for,
            "ready_for": self.ready_for,
            "write_booking": self.write_booking,
        }

    async def book(self, body: bytes) -> None:
        self.book_now(body)

    def book_now(self, _: bytes) -> None:
        self.called.add("book")
        raise Left

    async def forever(self) -> None:
        await self._is_ready.wait()

    async def is_booked(self, _: str) -> bool:
        return True

    def ready_for(self, _: object) -> bool:
        self.called.add("ready_for")
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._is_ready.set)
        return True

    async def write_booking(self, id: str) -> None:
        self.called.add("write_booking")


async def run_async(file: Path) -> set[str]:
    """Run the `async def main()` of the file; which of the reader's functions it called."""
    reader = Reader(is_async=True)
    main = runpy.run_path(str(file), init_globals=reader.names)["main"]
    with contextlib.suppress(Left):
        await asyncio.wait_for(main(), ANSWERED_IN_SECONDS)
    return reader.called


def run_blocking(file: Path) -> set[str]:
    """Run the file as a program; which of the reader's functions it called."""
    reader = Reader(is_async=False)
    with contextlib.suppress(Left):
        runpy.run_path(str(file), init_globals=reader.names)
    return reader.called


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_client_runs(cluster: EmbeddedCluster, number: int, tmp_path: Path) -> None:
    async def send() -> None:
        async with Producer("before", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("orders", b"{}", tags="paid"))

    cluster.run(send())
    example = EXAMPLES[number].replace("127.0.0.1:9876", cluster.namesrv)
    is_async = "await" in example  # the page: "the examples stand inside an `async def`"
    file = tmp_path / "example.py"
    file.write_text("async def main():\n" + textwrap.indent(example, "    ") if is_async else example)
    called = asyncio.run(run_async(file)) if is_async else run_blocking(file)
    asked = {name for name in ("book", "ready_for", "write_booking") if re.search(rf"(?<!def ){name}\(", example)}
    assert called == asked - set(re.findall(r"def (\w+)", example))


@pytest.mark.long
def test_the_commands_of_the_command_line_run_in_their_order(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    async def read() -> None:
        async with Consumer("GROUP", "orders", namesrv=cluster.namesrv, from_where=FirstOffset.FIRST) as consumer:
            await consumer.receive()

    with contextlib.suppress(RocketLakeError):  # there is no such topic yet
        rocketlake("topic", "delete", "orders", "--force", "--yes")
    printed = []
    for command in COMMANDS:
        if command == "rocketlake group list":
            cluster.run(read())
        feed, _, typed = command.rpartition("| ")
        given = "".join(f"{n}\n" for n in range(1, 1001)) if feed else "y\n"
        printed.append(rocketlake(*shlex.split(typed)[1:], given=given))
    shown = dict(zip(COMMANDS, printed, strict=True))
    assert shown["seq 1 1000 | rocketlake produce numbers"] == "1000 messages stored in numbers\n"
    assert len(shown["rocketlake consume numbers --from earliest -c 3"].splitlines()) == 3
    assert "dry run" in shown["rocketlake group reset GROUP --topic orders --to earliest --dry-run"]
