"""`rocketlake consume`: print messages of a topic, from a place to a place, or as they come.

Owns        options and output of the command.
Must not know   where a reading begins and ends (reading.py), how messages travel (client).
"""

from __future__ import annotations

import errno
import os
import select
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.message_text import formatted, message_line, message_object
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run, text_line
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, OutputForm, amount, show_line

if TYPE_CHECKING:
    from rocketlake.cli.reading import Reading
    from rocketlake.model.message import StoredMessage

__all__ = ["consume"]

_BATCH = 32

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="latest, earliest, a time, 10m ago, an offset, or -100: so many back in each queue.",
    ),
]
To = Annotated[
    str, typer.Option("--to", metavar="TIME", help="End before messages stored at this time.", show_default=False)
]
Last = Annotated[
    int,
    typer.Option("--last", min=0, help="The newest so many, by their time; then end.", show_default=False),
]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", "-e", help="End behind the newest message there is at the start.")
]
Count = Annotated[
    int, typer.Option("--count", "-c", min=0, help="Stop after so many messages, and wait for them; 0: never.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Only this queue, broker-a/0; may be repeated.", show_default=False),
]
Group = Annotated[
    str,
    typer.Option("--group", "-g", help="Join this group, share its queues and commit its offsets.", show_default=False),
]
Sql92 = Annotated[
    str,
    typer.Option("--sql92", help="Only messages whose properties pass this expression.", show_default=False),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="Only with this property, name=value; * matches all.", show_default=False),
]
BodiesOnly = Annotated[bool, typer.Option("--bodies", help="Print bodies only, one per line; as they are, if piped.")]
Form = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="%t topic, %p broker, %q queue, %o offset, %i id, %T tag, %k keys, %h properties, %s body, %d time.",
        show_default=False,
    ),
]


def consume(
    topic: Annotated[str, typer.Argument(help="Topic name.", show_default=False)],
    begin: From = "latest",
    end: To = "",
    last: Last = 0,
    until_end: UntilEnd = False,
    count: Count = 0,
    queues: Queues = None,
    group: Group = "",
    tags: Annotated[str, typer.Option("--tag", "--tags", "-t", help="Only these tags, 'TagA || TagB'.")] = "*",
    sql92: Sql92 = "",
    key: Annotated[str, typer.Option("--key", "-k", help="Only messages with this key.", show_default=False)] = "",
    headers: Headers = None,
    grep: Annotated[str, typer.Option("--grep", help="Only bodies with this text in it.", show_default=False)] = "",
    bodies_only: BodiesOnly = False,
    form: Form = "",
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print messages, with tag, keys and properties: those that come, or those of a span.

    Without --group no group is disturbed and no offset committed; queues and brokers that are added are read, too.

    Examples: `rocketlake consume orders`, `rocketlake consume orders --from earliest --until-end -o json`,
    `rocketlake consume orders --last 10`, `rocketlake consume orders --from 1h --key order-1 -e`
    """
    from rocketlake.base.clock import SystemClock
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.reading import Reading, Span, Wanted

    span = Span.parse(begin, end, last, until_end=until_end, queues=queues or (), now_ms=SystemClock().now_ms())
    if group and span != Span():
        hint = "leave --from, --to, --last, --until-end and --queue out: the group goes on at its offsets"
        raise UsageError("a group has its own offsets and queues", hint=hint)
    if sum(map(bool, (bodies_only, form, output is not OutputForm.TABLE))) > 1:
        raise UsageError("--bodies, --format and --output all say how", hint="give one of them")
    wanted = Wanted.parse(tags, sql92, key=key, headers=headers or (), grep=grep)
    reading = Reading(namesrv, topic, group, span, wanted, look=_end_without_reader)

    def show(message: StoredMessage) -> None:
        if output is not OutputForm.TABLE:
            show_line(message_object(message))
        elif form:
            sys.stdout.write(formatted(form, message))
        elif bodies_only and not sys.stdout.isatty():
            sys.stdout.buffer.write(message.body + b"\n")
        else:
            print(text_line(message.body) if bodies_only else message_line(message))
        sys.stdout.flush()

    try:
        run(_print(reading, count, show_one=show))
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _print(reading: Reading, count: int, *, show_one: object) -> None:
    assert callable(show_one)
    async with reading:
        ends = f"ends after {amount(count, 'message')}, or by Ctrl-C" if count else "Ctrl-C stops"
        what = f"reading {reading.topic}: {amount(len(reading.queues), 'queue')}; {reading.ends or ends}"
        print(what, file=sys.stderr, flush=True)
        printed = 0
        while not (count and printed >= count):
            _end_without_reader()
            found = await reading.next(min(_BATCH, count - printed) if count else _BATCH)
            if found is None:
                return
            for message in found:
                show_one(message)
            printed += len(found)


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
