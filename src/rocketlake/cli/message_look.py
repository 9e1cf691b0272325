"""`rocketlake message get | trace`: find messages, and follow the life of one.

Owns        options and output of these commands.
Must not know   how messages are found, where steps of a life are read (admin/messages/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, objects, show_json, show_line, show_table

if TYPE_CHECKING:
    from rocketlake.admin import Admin
    from rocketlake.admin.messages.life import Life
    from rocketlake.model.message import StoredMessage

__all__ = ["app"]

app = CommandTree(help="Find messages, follow the life of one.")
_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@app.command()
def get(
    topic: Annotated[str, typer.Argument(help="Topic name.", show_default=False)],
    message_id: Annotated[
        str | None, typer.Option("--id", help="The id that a send or a tail printed.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="A key of the message.", show_default=False)] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PLACE", help="broker/queue@offset, as a tail prints it.", show_default=False),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Stored from this time on, or 10m ago; also with --key.", show_default=False
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Stored before this time, or 10m ago.", show_default=False),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-c", min=1, max=10_000, help="So many at most, from --from on.")
    ] = 32,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print messages of a topic, found by id, key, place or time. No group is disturbed; without one, exit code 3."""
    from rocketlake.admin import Admin
    from rocketlake.admin.messages.place import parse_place
    from rocketlake.base.clock import SystemClock
    from rocketlake.base.errors import NotThereError, UsageError
    from rocketlake.cli.message_text import details, everything, message_line
    from rocketlake.model.moment import parse_time

    now_ms = SystemClock().now_ms()
    begin_ms = None if begin is None else parse_time("--from", begin, now_ms=now_ms)
    end_ms = 1 << 62 if end is None else parse_time("--to", end, now_ms=now_ms)
    where = None if at is None else parse_place(at)
    ways = [name for name, value in (("--id", message_id), ("--key", key), ("--at", at)) if value is not None]
    if len(ways) > 1 or not (ways or begin):
        hint = "give --id, --key, --at, or --from for a time"
        raise UsageError("messages are found by one of id, key, place and time", hint=hint)
    if ways not in ([], ["--key"]) and (begin or end):
        raise UsageError(f"{ways[0]} names a message at whatever time", hint="leave --from and --to out")

    async def find(admin: Admin) -> list[StoredMessage]:
        if message_id is not None:
            return await admin.messages_by_id(topic, message_id)
        if key is not None:
            return await admin.messages_by_key(topic, key, from_ms=begin_ms or 0, to_ms=end_ms)
        if where is not None:
            message = await admin.message_at(topic, *where)
            return [] if message is None else [message]
        return await admin.messages_between(topic, begin_ms or 0, end_ms, limit=count)

    async def work() -> list[StoredMessage]:
        async with Admin(namesrv=namesrv) as admin:
            return await find(admin)

    found = run(work())
    if not found:
        hint = f"`rocketlake topic show {topic}` tells which offsets and times the topic has"
        raise NotThereError(f"topic {topic} has no such message", where=f"name server {namesrv}", hint=hint)
    for message in found:
        if output is not OutputForm.TABLE:
            show_line(everything(message))
        else:
            print(details(message) if len(found) == 1 else f"{message_line(message)}  id {message.message_id}")


@app.command()
def trace(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id that a send or a tail printed.", show_default=False)
    ],
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Its topic. Not needed if its producer traces.", show_default=False),
    ] = None,
    trace_topic: Annotated[str, typer.Option("--trace-topic", help="The topic of traces.")] = _TRACE_TOPIC,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show the life of one message: sent by whom, stored where, consumed by which groups, retried, given up.

    Clients with `trace=True` tell of sends and listeners; the rest is read from the topics.
    """
    from rocketlake.admin import Admin

    async def work() -> Life:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.message_life(message_id, topic, trace_topic=trace_topic)

    life = run(work())
    headings = ("time", "step", "where", "group", "client", "took ms", "result")
    rows = [
        (Moment(step.at_ms), step.what, step.where, step.by, step.client, step.took_ms, step.result)
        for step in life.steps
    ]
    if output is not OutputForm.TABLE:
        known = {"id": life.message_id, "topic": life.topic, "traced": life.is_traced}
        show_json(known | {"steps": objects(headings, rows)})
        return
    typer.echo(f"message {life.message_id} of topic {life.topic}")
    show_table(headings, rows)
    if not life.is_traced:
        typer.echo("no client told of it (ClientConfig(trace=True)): this is what its topics know", err=True)
