"""`rocketlake schedule list | cancel`: messages that wait for their time.

Owns        options and output of these commands.
Must not know   the wheel of a broker, how a message is taken back (client).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, amount, show, tell

if TYPE_CHECKING:
    from rocketlake.admin.messages.waiting import Waiting

__all__ = ["app"]

app = CommandTree(help="Look at messages that wait for their time, take one back.")

_PRODUCER = "TOOLS_PRODUCER"


@app.command("list")
def list_waiting(
    topic: Annotated[str | None, typer.Option("--topic", help="Only for this topic.", show_default=False)] = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only due from this time on.", show_default=False)
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only due before this time.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print so many, the first ones due.")] = 100,
    summary: Annotated[bool, typer.Option("--summary", help="How many wait for each topic, and how long.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List messages sent with --deliver-at or --delay that wait. Messages of delay levels are not among them."""
    from rocketlake.admin import Admin
    from rocketlake.model.moment import parse_time

    times = {} if first is None else {"from_ms": parse_time("--from", first)}
    times |= {} if last is None else {"to_ms": parse_time("--to", last)}

    async def work() -> Waiting:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.waiting_messages(topic=topic, limit=0 if summary else limit, **times)

    waiting = run(work())
    none = "no message waits" + (f" for topic {topic}" if topic else "")
    if summary:
        headings = ("topic", "waiting", "within 1m", "within 1h", "within 1d", "later", "first due")
        rows = [
            (name, each.total, each.minute, each.hour, each.day, each.later, Moment(each.first_due))
            for name, each in sorted(waiting.counts.items())
        ]
        show(headings, rows, output, none=none)
        return
    found = [
        (Moment(each.due), each.topic, each.id, each.keys or None, each.recall_handle) for each in waiting.messages
    ]
    show(("due", "topic", "id", "keys", "handle"), found, output, none=none)
    if waiting.is_cut:
        print(f"the first {amount(len(found), 'message')}; --limit prints more, --summary counts all", file=sys.stderr)


@app.command()
def cancel(
    handle: Annotated[
        str, typer.Argument(help="Recall handle: of a send's result, or of `schedule list`.", show_default=False)
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Take a message back: it will not be delivered."""
    from rocketlake.client.producer.producer import Producer
    from rocketlake.model.message_id import RecallHandle

    topic = RecallHandle.of_text(handle).topic

    async def work() -> str:
        async with Producer(_PRODUCER, namesrv=namesrv) as producer:
            return await producer.recall(topic, handle)

    if agreed(f"take the message of topic {topic} back", yes=yes, dry_run=dry_run, topic=topic):
        message = run(work())
        tell(f"message {message} of topic {topic} will not be delivered", topic=topic, id=message)
