"""`rocketlake dlq list | show | resend | drop`: the messages that groups gave up.

Owns        options and output of these commands.
Must not know   how dead letters are chosen, read and sent again (admin/messages/dead_letters.py).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.message_text import marks_of, message_object
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run, text_line
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, amount, show_line
from rocketlake.cli.table import show as show_rows
from rocketlake.cli.table import tell as say

if TYPE_CHECKING:
    from rocketlake.admin import Admin, LettersSettled
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
Choice: TypeAlias = Any
"""A LetterChoice: the annotations of a command are looked at before the library is imported."""


def _none(group: str) -> str:
    """A misspelt group has none either."""
    return f"group {group} has no such dead letters; `rocketlake dlq list` shows the groups that have some"


def _chosen(
    id: Id = None,
    topic: Topic = None,
    tag: Tag = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
) -> Choice:
    """From the options. UsageError for a time that is none."""
    from rocketlake.admin import LetterChoice
    from rocketlake.base.clock import SystemClock
    from rocketlake.model.moment import parse_time

    now_ms = SystemClock().now_ms()
    since_ms, until_ms = (
        None if text is None else parse_time(option, text, now_ms=now_ms)
        for option, text in (("--since", since), ("--until", until))
    )
    return LetterChoice(id, topic, tag, error, since_ms, until_ms)


def _choosing(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_chosen` in the place of its parameter `choice`."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(_chosen, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(choice=_chosen(**{name: given.pop(name) for name in options}), **given)

    parts = [[each] if name != "choice" else options.values() for name, each in own.parameters.items()]
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for part in parts for each in part]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


@app.command("list")
def list_groups(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List groups with dead letters: how many are open (neither sent again nor dropped), how many are kept."""
    from rocketlake.admin import Admin, DeadLetterGroup

    async def work() -> list[DeadLetterGroup]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.dead_letter_groups()

    rows = [(each.group, each.open, each.kept, Moment(each.newest_ms)) for each in run(work())]
    show_rows(("group", "open", "kept", "newest"), rows, output, none="no dead letters")


@app.command()
@_choosing
def show(
    group: Group,
    choice: Choice,
    settled: Annotated[
        bool, typer.Option("--settled", help="Also those that were sent again or dropped, as long as they are kept.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Count them by topic and last error.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Print the dead letters of a group, with the last error of each; with -o json one object a line, to keep them."""
    from rocketlake.admin import Admin, letter_error

    counts: Counter[tuple[str, str]] = Counter()

    def tell(letter: StoredMessage) -> None:
        counts[letter.retry_topic or "", letter_error(letter)] += 1
        if not summary:
            _print(letter, output)

    async def work() -> None:
        async with Admin(namesrv=namesrv) as admin:
            await admin.dead_letters(group, tell, choice, settled=settled)

    run(work())
    if summary:
        rows = [(topic, number, error) for (topic, error), number in counts.most_common()]
        show_rows(("topic", "letters", "last error"), rows, output, none=_none(group))
    elif not counts:
        typer.echo(_none(group), err=True)


@app.command()
@_choosing
def resend(
    group: Group,
    choice: Choice,
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

    if body is not None and choice.id is None:
        raise UsageError("--body repairs one message", hint="say which with --id")
    repaired = None if body is None else _read(body)

    async def send(admin: Admin, tell: Callable[[StoredMessage], None]) -> LettersSettled:
        return await admin.resend_dead_letters(group, choice, to=to, body=repaired, tell=tell)

    where = f"to topic {to}" if to else f"to group {group}"
    _settle(group, choice, namesrv, (yes, dry_run), ask=f"send %s {where} again", did="sent again", all_of_them=send)


@app.command()
@_choosing
def drop(
    group: Group,
    choice: Choice,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Settle dead letters without sending them; their records stay until the retention deletes them."""

    async def settle(admin: Admin, tell: Callable[[StoredMessage], None]) -> LettersSettled:
        return await admin.drop_dead_letters(group, choice, tell=tell)

    _settle(group, choice, namesrv, (yes, dry_run), ask=f"drop %s of group {group}", did="dropped", all_of_them=settle)


def _settle(
    group: str,
    choice: Choice,
    namesrv: str,
    yes_or_dry: tuple[bool, bool],
    *,
    ask: str,
    did: str,
    all_of_them: Callable[[Admin, Callable[[StoredMessage], None]], Awaitable[LettersSettled]],
) -> None:
    from rocketlake.admin import Admin

    done = 0

    async def count() -> int:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.dead_letters(group, lambda _: None, choice)

    def tell(_letter: StoredMessage) -> None:
        nonlocal done
        done += 1
        if done % _TELL_EACH == 0:
            print(f"{amount(done)} {did}", file=sys.stderr, flush=True)

    async def work() -> LettersSettled:
        async with Admin(namesrv=namesrv) as admin:
            return await all_of_them(admin, tell)

    found = run(count())
    if not found:
        typer.echo(_none(group), err=True)
        return
    yes, dry_run = yes_or_dry
    if not agreed(ask % amount(found, "dead letter"), yes=yes, dry_run=dry_run, group=group, letters=found):
        return
    try:
        left = run(work()).open
    except BaseException:
        typer.echo(f"{amount(done, 'dead letter')} {did} before the end", err=True)
        raise
    more = f"; {amount(left, 'letter')} stay open, from the first on that was left" if left else ""
    say(f"{amount(done, 'dead letter')} {did}{more}", group=group, letters=done, open=left)


def _line(letter: StoredMessage) -> str:
    from rocketlake.admin import letter_error

    came = f"{letter.message_id} from {letter.retry_topic}{marks_of(letter)} tried {letter.reconsume_times} times"
    return f"{Moment(letter.store_ms)} {came}: {letter_error(letter)} | {text_line(letter.body)}"


def _print(letter: StoredMessage, output: OutputForm) -> None:
    if output is OutputForm.TABLE:
        print(_line(letter), flush=True)
    else:
        show_line(_object(letter))


def _object(letter: StoredMessage) -> dict[str, object]:
    from rocketlake.admin import letter_error

    told = {"from_topic": letter.retry_topic, "tries": letter.reconsume_times, "last_error": letter_error(letter)}
    return message_object(letter) | told


def _read(path: Path) -> bytes:
    from rocketlake.base.errors import UsageError

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"--body {path} cannot be read: {error.strerror}", hint="name a file with the body") from None
