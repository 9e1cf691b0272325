"""`rocketlake dlq list | show | resend | drop`: the messages that groups gave up.

Owns        options and output of these commands, which dead letters are meant.
Must not know   how a dead letter is read and sent again (client/dead_letters.py).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.message_text import marks_of, message_object
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run, text_line
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, amount, show_line, tell
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.client.dead_letters import DeadLetters
    from rocketlake.model.message import StoredMessage

__all__ = ["app"]

app = CommandTree(help="Dead letters, the messages that groups gave up: list, show, send again, drop.")

Group = Annotated[str, typer.Argument(help="Consumer group that gave the messages up.", show_default=False)]
Id = Annotated[str | None, typer.Option("--id", help="Only the message with this id.", show_default=False)]
Topic = Annotated[str | None, typer.Option("--topic", help="Only messages of this topic.", show_default=False)]
Tag = Annotated[str | None, typer.Option("--tag", "-t", help="Only messages with this tag.", show_default=False)]
Error = Annotated[
    str | None, typer.Option("--error", help="Only messages whose last error has this text in it.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Given up at this time or later; 10m: so long ago.", show_default=False
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Given up before this time.", show_default=False)
]
_TELL_EACH = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are meant; None leaves a question open. Times are epoch ms."""

    id: str | None
    topic: str | None
    tag: str | None
    error: str | None
    since_ms: int | None
    until_ms: int | None

    @classmethod
    def parse(
        cls,
        id: Id = None,
        topic: Topic = None,
        tag: Tag = None,
        error: Error = None,
        since: Since = None,
        until: Until = None,
    ) -> Wanted:
        """From the options. UsageError for a time that is none."""
        from rocketlake.base.clock import SystemClock
        from rocketlake.model.moment import parse_time

        now_ms = SystemClock().now_ms()
        since_ms, until_ms = (
            None if text is None else parse_time(option, text, now_ms=now_ms)
            for option, text in (("--since", since), ("--until", until))
        )
        return cls(id, topic, tag, error, since_ms, until_ms)

    def has(self, letter: StoredMessage) -> bool:
        """True if this letter is meant."""
        return (
            self.id in (None, letter.message_id)
            and self.topic in (None, letter.retry_topic)
            and self.tag in (None, letter.tags)
            and (self.error is None or self.error in _error(letter))
            and (self.since_ms is None or letter.store_ms >= self.since_ms)
            and (self.until_ms is None or letter.store_ms < self.until_ms)
        )


def _choosing(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `Wanted.parse` in the place of its parameter `wanted`."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(Wanted.parse, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(wanted=Wanted.parse(**{name: given.pop(name) for name in options}), **given)

    parts = [[each] if name != "wanted" else options.values() for name, each in own.parameters.items()]
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for part in parts for each in part]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


@app.command("list")
def list_groups(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List groups with dead letters: how many are open (neither sent again nor dropped), how many are kept."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.groups import ClusterGroups
    from rocketlake.model.names import DEAD_LETTER_GROUP, DEAD_LETTER_PREFIX, is_dead_letter_topic

    async def work() -> list[tuple[str, int, int, Moment]]:
        rows = []
        async with Cluster(namesrv) as cluster:
            for topic in filter(is_dead_letter_topic, await cluster.topics()):
                queues = await cluster.queues(topic)
                marks = await ClusterGroups(cluster).committed(DEAD_LETTER_GROUP, queues)
                kept = sum(each.max_offset - each.min_offset for each in queues.values())
                settled = sum(max(0, marks[queue] - each.min_offset) for queue, each in queues.items())
                newest = max((each.last_update_timestamp for each in queues.values()), default=0)
                rows.append((topic.removeprefix(DEAD_LETTER_PREFIX), kept - settled, kept, Moment(newest)))
        return rows

    show_rows(("group", "open", "kept", "newest"), run(work()), output, none="no dead letters")


@app.command()
@_choosing
def show(
    group: Group,
    wanted: Wanted,
    settled: Annotated[
        bool, typer.Option("--settled", help="Also those that were sent again or dropped, as long as they are kept.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Count them by topic and last error.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print the dead letters of a group, with the last error of each; with -o json one object a line, to keep them."""
    counts: Counter[tuple[str, str]] = Counter()

    async def work() -> None:
        async with _letters(group, namesrv) as letters:
            async for letter in letters.read(settled=settled):
                if not wanted.has(letter):
                    continue
                counts[letter.retry_topic or "", _error(letter)] += 1
                if not summary:
                    _print(letter, output)

    run(work())
    if summary:
        rows = [(topic, number, error) for (topic, error), number in counts.most_common()]
        show_rows(("topic", "letters", "last error"), rows, output, none=f"group {group} has no such dead letters")
    elif not counts:
        typer.echo(f"group {group} has no such dead letters", err=True)


@app.command()
@_choosing
def resend(
    group: Group,
    wanted: Wanted,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="Send to all readers of this topic.", show_default=False),
    ] = None,
    body: Annotated[
        Path | None,
        typer.Option("--body", metavar="FILE", help="The repaired body, for --id.", show_default=False),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Send dead letters to their group again, to it alone: as if they had never failed."""
    from rocketlake.base.errors import UsageError

    if body is not None and wanted.id is None:
        raise UsageError("--body repairs one message", hint="say which with --id")
    repaired = None if body is None else _read(body)

    async def send(letters: DeadLetters, letter: StoredMessage) -> None:
        await letters.send_again(letter, body=repaired, topic=to)

    where = f"to topic {to}" if to else f"to group {group}"
    _settle(group, wanted, namesrv, (yes, dry_run), ask=f"send %s {where} again", did="sent again", each=send)


@app.command()
@_choosing
def drop(
    group: Group,
    wanted: Wanted,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Settle dead letters without sending them; their records stay until the retention deletes them."""

    async def settle(letters: DeadLetters, letter: StoredMessage) -> None:
        await letters.drop(letter)

    _settle(group, wanted, namesrv, (yes, dry_run), ask=f"drop %s of group {group}", did="dropped", each=settle)


def _settle(
    group: str,
    wanted: Wanted,
    namesrv: str,
    yes_or_dry: tuple[bool, bool],
    *,
    ask: str,
    did: str,
    each: Callable[[DeadLetters, StoredMessage], Awaitable[None]],
) -> None:
    async def count() -> int:
        async with _letters(group, namesrv) as letters:
            return sum([wanted.has(letter) async for letter in letters.read()])

    done = 0

    async def work() -> int:
        nonlocal done
        async with _letters(group, namesrv) as letters:
            async for letter in letters.read():
                if wanted.has(letter):
                    await each(letters, letter)
                    done += 1
                    if done % _TELL_EACH == 0:
                        print(f"{amount(done)} {did}", file=sys.stderr, flush=True)
            return sum(span.open for span in (await letters.spans()).values())

    found = run(count())
    if not found:
        typer.echo(f"group {group} has no such dead letters", err=True)
        return
    yes, dry_run = yes_or_dry
    if not agreed(ask % amount(found, "dead letter"), yes=yes, dry_run=dry_run, group=group, letters=found):
        return
    try:
        left = run(work())
    except BaseException:
        typer.echo(f"{amount(done, 'dead letter')} {did} before the end", err=True)
        raise
    more = f"; {amount(left, 'letter')} stay open, from the first on that was left" if left else ""
    tell(f"{amount(done, 'dead letter')} {did}{more}", group=group, letters=done, open=left)


def _letters(group: str, namesrv: str) -> DeadLetters:
    from rocketlake.client.dead_letters import DeadLetters

    return DeadLetters(group, namesrv=namesrv)


def _error(letter: StoredMessage) -> str:
    """Why it failed last; "-" for a letter of a consumer that does not tell."""
    from rocketlake.client.consumer.damage import DAMAGE
    from rocketlake.model.property_names import LAST_ERROR

    return letter.properties.get(LAST_ERROR) or letter.properties.get(DAMAGE) or "-"


def _line(letter: StoredMessage) -> str:
    came = f"{letter.message_id} from {letter.retry_topic}{marks_of(letter)} tried {letter.reconsume_times} times"
    return f"{Moment(letter.store_ms)} {came}: {_error(letter)} | {text_line(letter.body)}"


def _print(letter: StoredMessage, output: OutputForm) -> None:
    if output is OutputForm.TABLE:
        print(_line(letter), flush=True)
    else:
        show_line(_object(letter))


def _object(letter: StoredMessage) -> dict[str, object]:
    told = {"from_topic": letter.retry_topic, "tries": letter.reconsume_times, "last_error": _error(letter)}
    return message_object(letter) | told


def _read(path: Path) -> bytes:
    from rocketlake.base.errors import UsageError

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"--body {path} cannot be read: {error.strerror}", hint="name a file with the body") from None
