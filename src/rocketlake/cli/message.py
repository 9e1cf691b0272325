"""`rocketlake send`, `rocketlake tail`.

Owns        options and output of these commands.
Must not know   how messages travel (client).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run, show_time, text_line

if TYPE_CHECKING:
    from rocketlake.client.consumer.pull import PullConsumer
    from rocketlake.model.message import StoredMessage
    from rocketlake.model.message_queue import MessageQueue

__all__ = ["send", "tail"]

Topic = Annotated[str, typer.Argument(help="Topic name.", show_default=False)]
_GROUP = "TOOLS_CONSUMER"
_PRODUCER = "TOOLS_PRODUCER"


def send(
    topic: Topic,
    body: Annotated[str, typer.Argument(help="Text of the message; - sends each line of standard input.")],
    tags: Annotated[str | None, typer.Option("--tag", "-t", help="Tag.")] = None,
    keys: Annotated[str | None, typer.Option("--key", "-k", help="Keys to find it by, space separated.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", help="name=value; may be repeated.")
    ] = None,
    delay_level: Annotated[int, typer.Option("--delay-level", min=0, max=18, help="1 = 1 s ... 18 = 2 h.")] = 0,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Send a message, or one per line of standard input."""
    from rocketlake import Message, Producer

    extra = dict(_property(text) for text in properties or ())

    async def work() -> None:
        count, result = 0, None
        async with Producer(_PRODUCER, namesrv=namesrv) as producer:
            for text in _bodies(body):
                message = Message(topic, text.encode(), tags=tags, keys=keys, properties=extra, delay_level=delay_level)
                result = await producer.send(message)
                count += 1
        if count == 1 and result is not None:
            queue = f"broker {result.queue.broker_name}, queue {result.queue.queue_id}"
            typer.echo(f"stored in {topic}: {queue}, offset {result.queue_offset}, id {result.message_id}")
        else:
            typer.echo(f"{count:,} messages stored in {topic}")

    run(work())


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"'{text}' is not name=value", param_hint="--property")
    return name, value


def _bodies(body: str) -> Iterator[str]:
    if body != "-":
        yield body
        return
    yield from (text for line in sys.stdin if (text := line.rstrip("\r\n")))


def tail(
    topic: Topic,
    tags: Annotated[str, typer.Option("--tags", "-t", help="Only these tags, 'TagA || TagB'.")] = "*",
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-b", help="Start at the oldest message.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-c", min=0, help="Stop after so many messages; 0: never.")] = 0,
    bodies_only: Annotated[bool, typer.Option("--bodies", help="Print bodies only, one per line.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print messages as they come; reads beside every group and commits nothing."""
    from rocketlake.client.consumer.pull import PullConsumer

    async def work() -> None:
        async with PullConsumer(_GROUP, namesrv=namesrv, auto_commit=False) as consumer:
            queues, is_new = await _wait_for_topic(consumer, topic)
            consumer.assign(queues, tags)
            await (consumer.seek_to_begin() if from_beginning or is_new else consumer.seek_to_end())
            print(f"tailing {topic}: {len(queues)} queues; Ctrl-C stops", file=sys.stderr, flush=True)
            await _print_messages(consumer, count, bodies_only=bodies_only)

    try:
        run(work())
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _wait_for_topic(consumer: PullConsumer, topic: str) -> tuple[list[MessageQueue], bool]:
    """Its queues, and whether it was made while we waited: then even its first message came after us."""
    from rocketlake.client.errors import NoRoute

    is_new = False
    while True:
        try:
            return await consumer.fetch_queues(topic), is_new
        except NoRoute:
            if not is_new:
                print(f"topic {topic} does not exist yet; waiting for its first message", file=sys.stderr, flush=True)
            is_new = True
            await asyncio.sleep(0.5)


async def _print_messages(consumer: PullConsumer, count: int, *, bodies_only: bool) -> None:
    printed = 0
    while not count or printed < count:
        room = min(32, count - printed) if count else 32
        for message in await consumer.poll(timeout_ms=1000, max_messages=room):
            print(text_line(message.body) if bodies_only else _line(message), flush=True)
            printed += 1


def _line(message: StoredMessage) -> str:
    place = f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"
    marks = "".join(f" {name}={value}" for name, value in (("tag", message.tags), ("key", message.keys)) if value)
    return f"{show_time(message.store_ms)} {place}{marks}  {text_line(message.body)}"
