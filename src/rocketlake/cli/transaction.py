"""`rocketlake transaction list | check`: transactions without an end.

Owns        options and output of these commands.
Must not know   how a broker keeps half messages, how it asks about them.
"""

from __future__ import annotations

import heapq
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, amount, show

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rocketlake.cli.cluster import Cluster
    from rocketlake.protocol.bodies.transaction import HalfMessage
    from rocketlake.protocol.headers.transaction import HalfMessagesHeader

__all__ = ["Found", "app"]

app = CommandTree(help="Look at transactions without an end, have one checked again.")

_TIMEOUT_MS = 30_000


@app.command("list")
def list_open(
    topic: Annotated[str | None, typer.Option("--topic", help="Only for this topic.", show_default=False)] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Only of this producer group.", show_default=False)
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only of groups of which no producer is connected: nobody can be asked.")
    ] = False,
    given_up: Annotated[
        bool, typer.Option("--given-up", help="Those that were given up after too many questions, instead.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print so many, the oldest ones.")] = 100,
    summary: Annotated[
        bool, typer.Option("--summary", help="How many each producer group has, and since when.")
    ] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List transactions that are neither committed nor rolled back, the oldest first. Nothing is changed."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.protocol.headers.transaction import HalfMessagesHeader

    header = HalfMessagesHeader(topic=topic, group=group, is_dead=dead, given_up=given_up)

    async def work() -> Found:
        found = Found(limit)
        async with Cluster(namesrv) as cluster:
            for broker, address in (await cluster.masters()).items():
                async for half in _ask(cluster, address, header):
                    found.take(broker, half)
        return found

    found = run(work())
    state = "given up" if given_up else "open"
    none = f"no transaction is {state}" + " of a group without producers" * dead
    if summary:
        columns = ("group", "broker", state, "producers", "most checks", "oldest")
        show(columns, [count.row(*key) for key, count in sorted(found.counts.items())], output, none=none)
        return
    last = "given up" if given_up else "last check"
    headings = ("since", "topic", "group", "producers", "checks", last, "transaction", "keys", "broker", "id")
    rows = [_row(broker, half, given_up=given_up) for broker, half in found.oldest()]
    show(headings, rows, output, none=none)
    if len(rows) < found.total:
        what = f"the oldest {len(rows)} of {amount(found.total, 'transaction')}"
        print(f"{what}; --limit prints more, --summary counts all", file=sys.stderr)


@app.command()
def check(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="id, of `transaction list --given-up`.", show_default=False)
    ],
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Have a transaction that was given up checked again: producers of its group are asked as for a new one."""
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.cluster import Cluster
    from rocketlake.client.calls.answer import ask
    from rocketlake.model.message_id import parse_offset_message_id
    from rocketlake.model.topic import TRANSACTION_CHECK_MAX_TOPIC
    from rocketlake.protocol.command import Command
    from rocketlake.protocol.headers.transaction import ResumeCheckHeader
    from rocketlake.protocol.request_code import RequestCode

    host, port, _ = parse_offset_message_id(message_id)
    address = f"{host}:{port}"
    header = ResumeCheckHeader(msg_id=message_id, topic=TRANSACTION_CHECK_MAX_TOPIC)

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            if address not in (await cluster.masters()).values():
                hint = "take the id that `rocketlake transaction list --given-up` prints now"
                raise UsageError(f"no master of this cluster has the address {address}", hint=hint)
            await ask(cluster.net, address, Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))

    run(work())
    typer.echo("the transaction is open: producers of its group are asked about it")


class Found:
    """What the brokers listed: counts of all transactions, and the oldest ones."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self.counts: dict[tuple[str, str], _Count] = {}
        """By (group, broker)."""
        self._limit = limit
        self._oldest: list[tuple[int, int, str, HalfMessage]] = []
        """A heap, the youngest first, of equal ones the last: (-born, -number, broker, transaction)."""
        self._names: set[tuple[str, int]] = set()

    def take(self, broker: str, half: HalfMessage) -> None:
        """Note one; the same one may come again."""
        if (broker, half.name) in self._names:
            return
        if half.name >= 0:
            self._names.add((broker, half.name))
        self.total += 1
        self.counts.setdefault((half.group, broker), _Count()).take(half)
        heapq.heappush(self._oldest, (-half.born, -self.total, broker, half))
        if len(self._oldest) > self._limit:
            heapq.heappop(self._oldest)

    def oldest(self) -> list[tuple[str, HalfMessage]]:
        """(broker, transaction), the oldest first."""
        return [(broker, half) for _, _, broker, half in sorted(self._oldest, reverse=True)]


class _Count:
    """The transactions of a group at one broker."""

    def __init__(self) -> None:
        self._total = self._producers = self._checks = 0
        self._oldest = sys.maxsize

    def take(self, half: HalfMessage) -> None:
        """Note one."""
        self._total += 1
        self._producers = half.producers
        self._checks = max(self._checks, half.checked)
        self._oldest = min(self._oldest, half.born)

    def row(self, group: str, broker: str) -> tuple[object, ...]:
        """The row of a table."""
        return group, broker, self._total, self._producers, self._checks, Moment(self._oldest)


def _row(broker: str, half: HalfMessage, *, given_up: bool) -> tuple[object, ...]:
    last = Moment(half.stored if given_up or half.checked else 0)
    start = (Moment(half.born), half.topic, half.group, half.producers, half.checked, last)
    return *start, half.transaction, half.keys or None, broker, half.id


async def _ask(cluster: Cluster, address: str, header: HalfMessagesHeader) -> AsyncIterator[HalfMessage]:
    """All that one broker lists."""
    from rocketlake.client.calls.answer import ask
    from rocketlake.protocol.bodies.transaction import HalfMessages
    from rocketlake.protocol.command import Command
    from rocketlake.protocol.request_code import RequestCode

    header.offset = 0
    while True:
        command = Command.request(RequestCode.GET_HALF_MESSAGES, header)
        answer = HalfMessages.decode((await ask(cluster.net, address, command, _TIMEOUT_MS)).body_bytes)
        for half in answer.halves:
            yield half
        if not answer.next_offset:
            return
        header.offset = answer.next_offset
