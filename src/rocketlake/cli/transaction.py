"""`rocketlake transaction list | check`: transactions without an end.

Owns        options and output of these commands.
Must not know   how a broker keeps half messages, how it asks about them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, amount, show, tell

if TYPE_CHECKING:
    from rocketlake.admin.messages.transactions import OpenTransactions
    from rocketlake.protocol.bodies.transaction import HalfMessage

__all__ = ["app"]

app = CommandTree(help="Look at transactions without an end, have one checked again.")


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
    from rocketlake.admin import Admin

    async def work() -> OpenTransactions:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.open_transactions(topic=topic, group=group, dead=dead, given_up=given_up, limit=limit)

    found = run(work())
    state = "given up" if given_up else "open"
    none = f"no transaction is {state}" + " of a group without producers" * dead
    if summary:
        columns = ("group", "broker", state, "producers", "most checks", "oldest")
        counts = [
            (*key, count.total, count.producers, count.checks, Moment(count.oldest_ms))
            for key, count in sorted(found.counts.items())
        ]
        show(columns, counts, output, none=none)
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
    from rocketlake.admin import Admin

    async def work() -> None:
        async with Admin(namesrv=namesrv) as admin:
            await admin.check_transaction(message_id)

    run(work())
    tell("the transaction is open: producers of its group are asked about it")


def _row(broker: str, half: HalfMessage, *, given_up: bool) -> tuple[object, ...]:
    last = Moment(half.stored if given_up or half.checked else 0)
    start = (Moment(half.born), half.topic, half.group, half.producers, half.checked, last)
    return *start, half.transaction, half.keys or None, broker, half.id
