"""`rocketlake store convert`: the store of a stopped broker in another form.

Owns        options and output of this command.
Must not know   the bytes of either form (rocketlake.store.dledger).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import run
from rocketlake.cli.table import amount, tell

if TYPE_CHECKING:
    from rocketlake.store.dledger.conversion import Converted

__all__ = ["app"]

app = CommandTree(help="Stores of stopped brokers.")


@app.callback()
def _options() -> None:
    """With a callback the single command keeps its name."""


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="storePathRootDir of a stopped DLedger member.", show_default=False)],
    target: Annotated[
        Path | None, typer.Argument(help="New folder; without it records are only checked.", show_default=False)
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="storePathDLedgerCommitLog, if it was set.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="broker.conf of the new broker; default: Apache's.", show_default=False),
    ] = None,
    give_up_from: Annotated[
        int | None,
        typer.Option(
            "--give-up-from",
            metavar="INDEX",
            help="Lose this entry and all behind it: only if no other member has them.",
            show_default=False,
            min=1,
        ),
    ] = None,
) -> None:
    """Make an ordinary store of a stopped DLedger member's. The source is only read."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from rocketlake.store.dledger.conversion import Conversion

    conversion = Conversion(source, log=log, given_up_from=give_up_from)
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{source} -> {target}" if target else str(source), total=conversion.bytes)

        def show(done: int) -> None:
            bar.update(task, completed=done)
            if target is not None and done >= conversion.bytes:
                bar.update(task, description="queues, key index, audit")

        if target is None:
            converted = conversion.look(show)
        else:
            settings = None
            if config is not None:
                from rocketlake.broker.config import load_broker_conf

                _, settings = load_broker_conf(config)
            converted = run(conversion.run(target, settings, show))
    _say(converted, target, give_up_from)


def _say(converted: Converted, target: Path | None, given_up_from: int | None) -> None:
    old = f", {amount(converted.old_records)} of them from before DLedger" if converted.old_records else ""
    tell(f"{amount(converted.records, 'message')} {'converted' if target else 'checked'}{old}".replace("  ", " "))
    tell(f"last entry: term {converted.last_term}, index {converted.last_index}")
    if given_up_from is not None:
        tell(_lost(converted, given_up_from))
    elif not converted.was_stopped:
        tell("the member was killed: its log was taken up to its last sound entry")
    if (open_end := converted.last_index - converted.committed_index) > 0:
        tell(f"the last {amount(open_end, 'entry')} were not noted as committed: their senders may know of no answer")
    for name in converted.older:
        tell(f"{name} was cut off while it was saved: the save before is taken ({name.partition('/')[2]}.bak)")
    for name in converted.left:
        tell(f"not taken over: {name}")
    groups, delayed = amount(converted.reached.groups), amount(converted.reached.delayed)
    tell(f"offsets of groups: {groups} in all, of delayed messages: {delayed}")
    tell("of all members convert the one with the highest term, of these the highest index, of these most offsets")
    if target is not None:
        tell(f"store: {target}, {amount(converted.bytes)} bytes; its broker has")
        tell(f"  storePathRootDir={target.resolve()}")
        tell(f"  mappedFileSizeCommitLog={converted.file_bytes}")


def _lost(converted: Converted, given_up_from: int) -> str:
    committed = max(0, converted.committed_index + 1 - given_up_from)
    noted = max(0, converted.noted_index + 1 - given_up_from)
    known = f"of these the member noted {amount(noted, 'entry')}, {committed} of them committed"
    return f"given up: entry {given_up_from} and all behind it; {known}"
