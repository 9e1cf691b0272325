"""`rocketlake send`, `rocketlake tail`.

Owns        options and output of these commands.
Must not know   how messages travel (client), how standard input is read (send_lines.py).
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketlake.cli.message_text import json_line, message_line, message_object
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run, text_line
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, OutputForm, amount

if TYPE_CHECKING:
    from rocketlake.client.consumer.pull import PullConsumer
    from rocketlake.model.message import Message, StoredMessage
    from rocketlake.model.message_queue import MessageQueue

__all__ = ["send", "tail"]

Topic = Annotated[str, typer.Argument(help="Topic name.", show_default=False)]
_GROUP = "TOOLS_CONSUMER"
_PRODUCER = "TOOLS_PRODUCER"
_ENDED_BY_CTRL_C = 130
_ROUTE_MS = 2000
"""A tail looks for new queues and brokers so often."""


def send(
    topic: Topic,
    body: Annotated[
        str, typer.Argument(help="Text of the message; - sends each line of standard input.", show_default=False)
    ],
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Tag.", show_default=False)] = None,
    keys: Annotated[
        str | None,
        typer.Option("--key", "-k", help="Keys to find the message by, space separated.", show_default=False),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", help="name=value; may be repeated.", show_default=False)
    ] = None,
    delay_level: Annotated[
        int, typer.Option("--delay-level", min=0, max=18, help="1 = 1 s ... 18 = 2 h; 0: no delay.")
    ] = 0,
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", metavar="TIME", help="Deliver it not before this time.", show_default=False),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="LENGTH", help="Deliver it after so long: 90s, 10m, 1h.", show_default=False),
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Send a message, or one per line of standard input (bytes, as they are)."""
    from rocketlake import Message

    extra = dict(_property(text) for text in properties or ())
    later = _later(delay_level, deliver_at, delay)

    def message(data: bytes) -> Message:
        return Message(topic, data, tags=tag, keys=keys, properties=extra, **later)

    if body != "-":
        run(_send_one(namesrv, message(body.encode())))
    elif not run(_send_lines(namesrv, topic, message)):
        raise typer.Exit(_ENDED_BY_CTRL_C)


def _later(level: int, deliver_at: str | None, delay: str | None) -> dict[str, Any]:
    """The words of Message that say when."""
    from rocketlake.base.errors import UsageError
    from rocketlake.model.moment import parse_length, parse_time

    if bool(level) + (deliver_at is not None) + (delay is not None) > 1:
        raise UsageError("a message is delayed by one option", hint="give --delay-level, --deliver-at or --delay")
    if deliver_at is not None:
        return {"deliver_at": parse_time("--deliver-at", deliver_at)}
    if delay is not None:
        return {"delay": parse_length("--delay", delay) / 1000}
    return {"delay_level": level}


def _property(text: str) -> tuple[str, str]:
    from rocketlake.base.errors import UsageError
    from rocketlake.model.property_names import DELAY, KEYS, RESERVED, TAGS, TIMER_DELIVER_MS, TIMERS

    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--property {text!r} is not name=value", hint="write --property colour=red")
    if name in RESERVED:
        own = dict.fromkeys(TIMERS, "--delay") | {TAGS: "--tag", KEYS: "--key", DELAY: "--delay-level"}
        own[TIMER_DELIVER_MS] = "--deliver-at"
        raise UsageError(
            f"--property {name} is a name of RocketMQ's own",
            hint=f"use {own[name]}" if name in own else "take another name",
        )
    return name, value


async def _send_one(namesrv: str, message: Message) -> None:
    from rocketlake import Producer
    from rocketlake.client.calls.send import not_safe

    async with Producer(_PRODUCER, namesrv=namesrv) as producer:
        result = await producer.send(message)
    if late := not_safe(message.topic, [result]):
        raise late
    queue = f"broker {result.queue.broker_name}, queue {result.queue.queue_id}"
    typer.echo(f"stored in {message.topic}: {queue}, offset {result.queue_offset}, id {result.message_id}")


async def _send_lines(namesrv: str, topic: str, message: Callable[[bytes], Message]) -> bool:
    """False after Ctrl-C. Always says how many messages are stored, so that the rest can be sent again."""
    from rocketlake import Producer
    from rocketlake.cli.send_lines import Sending, lines_of_stdin

    async with Producer(_PRODUCER, namesrv=namesrv) as producer:
        sending = Sending(producer)
        try:
            async for lines in lines_of_stdin():
                await sending.send([message(line) for line in lines])
        except asyncio.CancelledError:
            more = f"; {amount(sending.on_way)} more on the way, perhaps stored, too" if sending.on_way else ""
            typer.echo(f"interrupted: {amount(sending.stored, 'message')} stored in {topic}{more}", err=True)
            return False
        except Exception:
            typer.echo(f"{amount(sending.stored, 'message')} stored in {topic} before the error", err=True)
            raise
    typer.echo(f"{amount(sending.stored, 'message')} stored in {topic}")
    return True


def tail(
    topic: Topic,
    tags: Annotated[str, typer.Option("--tag", "--tags", "-t", help="Only these tags, 'TagA || TagB'.")] = "*",
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-b", help="Start at the oldest message.")
    ] = False,
    count: Annotated[
        int, typer.Option("--count", "-c", min=0, help="Stop after so many messages, and wait for them; 0: never.")
    ] = 0,
    bodies_only: Annotated[
        bool, typer.Option("--bodies", help="Print bodies only, one per line; as they are, if piped.")
    ] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print messages as they come, with tag, keys and properties. No group is disturbed, no offset committed.

    Queues and brokers that are added meanwhile are read, too.
    """
    from rocketlake.client.config import ClientConfig
    from rocketlake.client.consumer.pull import PullConsumer

    tags = _checked_tags(tags)
    client = ClientConfig(route_interval_ms=_ROUTE_MS)

    async def work() -> None:
        async with PullConsumer(_GROUP, namesrv=namesrv, auto_commit=False, client_config=client) as consumer:
            queues, is_new = await _wait_for_topic(consumer, topic)
            consumer.assign(queues, tags)
            await (consumer.seek_to_begin() if from_beginning or is_new else consumer.seek_to_end())
            ends = f"ends after {amount(count, 'message')}, or by Ctrl-C" if count else "Ctrl-C stops"
            print(f"tailing {topic}: {amount(len(queues), 'queue')}; {ends}", file=sys.stderr, flush=True)

            async def poll(most: int) -> list[StoredMessage]:
                await _add_queues(consumer, topic, tags)
                return await consumer.poll(timeout_ms=1000, max_messages=most)

            await _print_messages(poll, count, bodies_only=bodies_only, output=output)

    try:
        run(work())
    except KeyboardInterrupt:
        raise typer.Exit from None


def _checked_tags(text: str) -> str:
    """Raises UsageError for `TagA ||`: a half-written expression matches less than the user thinks."""
    from rocketlake.base.errors import UsageError

    if not all(part.strip() for part in text.split("||")):
        raise UsageError(f"the tags {text!r} have nothing on one side of ||", hint="write 'TagA || TagB', or TagA")
    return text


async def _wait_for_topic(consumer: PullConsumer, topic: str) -> tuple[list[MessageQueue], bool]:
    """The topic's queues, and True if it was made during the wait: then its first message is new, too."""
    from rocketlake.client.errors import NoRoute

    is_new = False
    while True:
        try:
            return await consumer.fetch_queues(topic), is_new
        except NoRoute:
            if not is_new:
                print(f"topic {topic} does not exist yet; waiting for its first message", file=sys.stderr, flush=True)
            is_new = True
            _end_without_reader()
            await asyncio.sleep(0.5)


async def _add_queues(consumer: PullConsumer, topic: str, tags: str) -> None:
    """Read queues that came since, from their first message on. One that is out of reach stays: it comes back."""
    from rocketlake.base.errors import LinkError
    from rocketlake.client.errors import NoRoute

    known = consumer.assignment
    try:
        new = [queue for queue in await consumer.fetch_queues(topic) if queue not in known]
        if new:
            consumer.assign([*known, *new], tags)
            await consumer.seek_to_begin(*new)
    except (LinkError, NoRoute):
        consumer.assign(known, tags)  # a server is away: the next look is soon


async def _print_messages(
    poll: Callable[[int], Awaitable[list[StoredMessage]]], count: int, *, bodies_only: bool, output: OutputForm
) -> None:
    printed = 0
    while not count or printed < count:
        _end_without_reader()
        room = min(32, count - printed) if count else 32
        for message in await poll(room):
            if output is OutputForm.JSON:
                print(json_line(message_object(message)), flush=True)
            elif bodies_only and not sys.stdout.isatty():
                sys.stdout.buffer.write(message.body + b"\n")
                sys.stdout.flush()
            else:
                print(text_line(message.body) if bodies_only else message_line(message), flush=True)
            printed += 1


def _end_without_reader() -> None:
    """Raises BrokenPipeError if nobody reads standard output any more (`| head -2`): no message may come to tell it."""
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(output, 0)
        if poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
