"""`rocketlake produce`: send texts, files, lines and JSON lines.

Owns        options and output of the command, what becomes a message of a text, a file, a line.
Must not know   how messages travel (client), how standard input is read (send_lines.py).
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketlake.cli.exit_codes import ExitCode
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, OutputForm, amount, show_line, tell

if TYPE_CHECKING:
    from rocketlake.client.calls.send import SendResult
    from rocketlake.model.message import Message

__all__ = ["produce"]

_PRODUCER = "TOOLS_PRODUCER"
Make = Callable[[bytes], "Message"]

Bodies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[BODY]...",
        help="Text of a message; @FILE: the whole file as one; -, and without a body: each line of standard input.",
        show_default=False,
    ),
]
Keys = Annotated[
    str | None,
    typer.Option("--key", "-k", help="Keys to find the message by, space separated.", show_default=False),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="A property, name=value; may be repeated.", show_default=False),
]
KeySeparator = Annotated[
    str,
    typer.Option("--key-separator", "-K", help="Each line is KEY, this text, and the body.", show_default=False),
]
JsonLines = Annotated[
    bool, typer.Option("--json-lines", "-J", help="Each line is an object, as `consume -o json` prints it.")
]
OrderBy = Annotated[
    str | None,
    typer.Option("--order-by", help="Messages with the same text here keep their order.", show_default=False),
]
DelayLevel = Annotated[int, typer.Option("--delay-level", min=0, max=18, help="1 = 1 s ... 18 = 2 h; 0: no delay.")]
DeliverAt = Annotated[
    str | None,
    typer.Option("--deliver-at", metavar="TIME", help="Deliver it not before this time.", show_default=False),
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", metavar="LENGTH", help="Deliver it after so long: 90s, 10m, 1h.", show_default=False),
]
Priority = Annotated[
    int | None, typer.Option("--priority", min=0, help="Pops get a higher one first.", show_default=False)
]


def produce(
    topic: Annotated[str, typer.Argument(help="Topic name.", show_default=False)],
    bodies: Bodies = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Tag.", show_default=False)] = None,
    keys: Keys = None,
    headers: Headers = None,
    key_separator: KeySeparator = "",
    json_lines: JsonLines = False,
    order_by: OrderBy = None,
    delay_level: DelayLevel = 0,
    deliver_at: DeliverAt = None,
    delay: Delay = None,
    priority: Priority = None,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Send messages: each BODY as one, or each line of standard input (bytes, as they are).

    Examples: `rocketlake produce orders hello`, `rocketlake produce orders @order.json -k order-1`,
    `cat orders.txt | rocketlake produce orders -K :`
    """
    from rocketlake import Message
    from rocketlake.base.errors import UsageError

    extra = dict(_property(text) for text in headers or ())
    later = _later(delay_level, deliver_at, delay) | {"priority": priority}
    is_stdin = bodies in (None, [], ["-"])
    if not is_stdin and "-" in (bodies or ()):
        raise UsageError("- stands for standard input and among other bodies", hint="give one or the other")
    if json_lines and key_separator:
        raise UsageError("--json-lines and --key-separator both say what a line is", hint="give one of them")
    if not is_stdin and (json_lines or key_separator):
        raise UsageError("--json-lines and --key-separator are for lines", hint="send these by standard input")

    def message(data: bytes, own_keys: str | None = None) -> Message:
        return Message(topic, data, tags=tag, keys=own_keys or keys, properties=extra, sharding_key=order_by, **later)

    def of_key_line(line: bytes) -> Message:
        key, found, body = line.partition(key_separator.encode())
        if not found:
            raise UsageError(f"no {key_separator!r} in the line {line[:60]!r}", hint="write KEY, it, and the body")
        return message(body, key.decode("utf-8", "replace"))

    def of_json_line(line: bytes) -> Message:
        values = _object(line)
        own: dict[str, Any] = {"tags": values.get("tag") or tag, "keys": values.get("keys") or keys}
        properties = extra | {name: str(value) for name, value in (values.get("properties") or {}).items()}
        return Message(topic, _body(values), properties=properties, sharding_key=order_by, **own, **later)

    if not is_stdin:
        run(_send_each(namesrv, [message(_given(text)) for text in bodies or ()], order_by, output))
        return
    make = of_json_line if json_lines else of_key_line if key_separator else message
    if not run(_send_lines(namesrv, topic, make, order_by)):
        raise typer.Exit(ExitCode.INTERRUPTED)


def _given(text: str) -> bytes:
    from rocketlake.base.errors import UsageError

    if not text.startswith("@"):
        return text.encode()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        hint = "name a file that may be read; a text that begins with @ comes by standard input"
        raise UsageError(f"{text[1:]} cannot be read: {error.strerror}", hint=hint) from None


def _object(line: bytes) -> dict[str, Any]:
    from rocketlake.base.errors import UsageError

    try:
        values = json.loads(line)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not {"body", "body_base64"} & values.keys():
        hint = 'write {"body": "hello", "tag": "paid", "keys": "k1", "properties": {"colour": "red"}}'
        raise UsageError(f"the line {line[:60]!r} is no message", hint=hint)
    return values


def _body(values: dict[str, Any]) -> bytes:
    """Its text or bytes; any other JSON value as JSON."""
    from rocketlake.base.errors import UsageError

    if "body_base64" in values:
        try:
            return base64.b64decode(values["body_base64"], validate=True)
        except (ValueError, TypeError):
            raise UsageError("body_base64 is no base64", hint="give the bytes in base64, or a text as body") from None
    body = values["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


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
        raise UsageError(f"--header {text!r} is not name=value", hint="write --header colour=red")
    if name in RESERVED:
        own = dict.fromkeys(TIMERS, "--delay") | {TAGS: "--tag", KEYS: "--key", DELAY: "--delay-level"}
        own[TIMER_DELIVER_MS] = "--deliver-at"
        raise UsageError(
            f"--header {name} is a name of RocketMQ's own",
            hint=f"use {own[name]}" if name in own else "take another name",
        )
    return name, value


async def _send_each(namesrv: str, messages: list[Message], order_by: str | None, output: OutputForm) -> None:
    from rocketlake import Producer
    from rocketlake.client.calls.send import not_safe

    async with Producer(_PRODUCER, namesrv=namesrv) as producer:
        for message in messages:
            result = await producer.send(message, key=order_by)
            if late := not_safe(message.topic, [result]):
                raise late
            _say_stored(message.topic, result, output)


def _say_stored(topic: str, result: SendResult, output: OutputForm) -> None:
    broker, queue = result.queue.broker_name, result.queue.queue_id
    handle = result.recall_handle
    if output is OutputForm.TABLE:
        where = "until its time" if handle else f"queue {queue}, offset {result.queue_offset}"
        back = f"; `rocketlake schedule cancel {handle}` takes it back" if handle else ""
        typer.echo(f"stored in {topic}: broker {broker}, {where}, id {result.message_id}{back}")
        return
    known = {"topic": topic, "broker": broker, "queue": queue, "offset": result.queue_offset, "id": result.message_id}
    show_line(known | ({"handle": handle} if handle else {}))


async def _send_lines(namesrv: str, topic: str, message: Make, order_by: str | None) -> bool:
    """False after Ctrl-C. Always says how many messages are stored, so that the rest can be sent again."""
    from rocketlake import Producer
    from rocketlake.cli.send_lines import Sending, lines_of_stdin

    async with Producer(_PRODUCER, namesrv=namesrv) as producer:
        sending = Sending(producer, order_by)
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
    tell(f"{amount(sending.stored, 'message')} stored in {topic}", topic=topic, stored=sending.stored)
    return True
