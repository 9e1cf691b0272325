"""`rocketlake schedule list | cancel`: messages that wait for their time.

Owns        options and output of these commands.
Must not know   the wheel of a broker, how a message is taken back (client).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, amount, show

if TYPE_CHECKING:
    from rocketlake.cli.cluster import Cluster
    from rocketlake.protocol.bodies.waiting import WaitingCount, WaitingMessage
    from rocketlake.protocol.headers.query import WaitingMessagesHeader

__all__ = ["app"]

app = CommandTree(help="Look at messages that wait for their time, take one back.")

_PRODUCER = "TOOLS_PRODUCER"
_PAGE = 1000
_TIMEOUT_MS = 30_000


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
    from rocketlake.cli.cluster import Cluster
    from rocketlake.model.moment import parse_time
    from rocketlake.protocol.headers.query import WaitingMessagesHeader

    header = WaitingMessagesHeader(topic=topic, limit=0 if summary else min(limit, _PAGE))
    header.from_ms = 0 if first is None else parse_time("--from", first)
    header.to_ms = header.to_ms if last is None else parse_time("--to", last)

    async def work() -> tuple[list[WaitingMessage], dict[str, WaitingCount], bool]:
        async with Cluster(namesrv) as cluster:
            return await _ask(cluster, header, limit)

    messages, counts, is_cut = run(work())
    none = "no message waits" + (f" for topic {topic}" if topic else "")
    if summary:
        headings = ("topic", "waiting", "within 1m", "within 1h", "within 1d", "later", "first due")
        rows = [
            (name, each.total, each.minute, each.hour, each.day, each.later, Moment(each.first_due))
            for name, each in sorted(counts.items())
        ]
        show(headings, rows, output, none=none)
        return
    found = [(Moment(each.due), each.topic, each.id, each.keys or None, each.recall_handle) for each in messages]
    show(("due", "topic", "id", "keys", "handle"), found, output, none=none)
    if is_cut:
        print(f"the first {amount(len(found), 'message')}; --limit prints more, --summary counts all", file=sys.stderr)


@app.command()
def cancel(
    handle: Annotated[
        str, typer.Argument(help="Recall handle: of a send's result, or of `schedule list`.", show_default=False)
    ],
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Take a message back: it will not be delivered."""
    from rocketlake.client.producer.producer import Producer
    from rocketlake.model.message_id import RecallHandle

    topic = RecallHandle.of_text(handle).topic

    async def work() -> str:
        async with Producer(_PRODUCER, namesrv=namesrv) as producer:
            return await producer.recall(topic, handle)

    typer.echo(f"message {run(work())} of topic {topic} will not be delivered")


async def _ask(
    cluster: Cluster, header: WaitingMessagesHeader, limit: int
) -> tuple[list[WaitingMessage], dict[str, WaitingCount], bool]:
    """(the first messages due, counts by topic, are there more) of all brokers."""
    from rocketlake.client.calls.answer import ask
    from rocketlake.protocol.bodies.waiting import WaitingMessages
    from rocketlake.protocol.command import Command
    from rocketlake.protocol.request_code import RequestCode

    messages: list[WaitingMessage] = []
    counts: dict[str, WaitingCount] = {}
    is_cut = False
    for address in (await cluster.masters()).values():
        of_broker = 0
        header.tick, header.place = 0, -1
        while True:
            command = Command.request(RequestCode.GET_WAITING_MESSAGES, header)
            answer = WaitingMessages.decode((await ask(cluster.net, address, command, _TIMEOUT_MS)).body_bytes)
            messages += answer.messages
            of_broker += len(answer.messages)
            for topic, count in answer.counts.items():
                counts[topic] = counts[topic].plus(count) if topic in counts else count
            if not answer.tick or (header.limit and of_broker >= limit):
                is_cut = is_cut or bool(answer.tick)
                break
            header.tick, header.place = answer.tick, answer.place
    messages.sort(key=lambda each: each.due)
    return messages[:limit], counts, is_cut or len(messages) > limit
