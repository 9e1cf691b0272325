"""`rocketlake spark offsets show | set`: the offsets at which a stopped Spark query goes on.

Owns        options and output of these commands.
Must not know   the files of a checkpoint (spark/source/checkpoint.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import DryRun, Yes, agreed
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, tell
from rocketlake.cli.table import show as show_rows

__all__ = ["app"]

app = CommandTree(help="Show and set the offsets of Spark queries.")
offsets = CommandTree(help="Where a stopped query goes on, by its checkpoint.")
app.add_typer(offsets, name="offsets")

Folder = Annotated[Path, typer.Argument(help="The query's checkpointLocation.", show_default=False)]


@offsets.command()
def show(checkpoint: Folder, output: Output = OUTPUT_DEFAULT) -> None:
    """Show the offset at which the next micro-batch begins, per queue."""
    from rocketlake.base.disk.posix import PosixFiles
    from rocketlake.spark.source.checkpoint import Checkpoint

    rows = Checkpoint(checkpoint, PosixFiles()).next_offsets()
    queues = sorted(rows)
    show_rows(
        ("topic", "broker", "queue", "next offset"),
        [(q.topic, q.broker_name, q.queue_id, rows[q]) for q in queues],
        output,
    )


@offsets.command("set")
def set_offset(
    checkpoint: Folder,
    topic: Annotated[str, typer.Option(help="Topic.", show_default=False)],
    broker: Annotated[str, typer.Option(help="Broker name.", show_default=False)],
    queue: Annotated[int, typer.Option(help="Queue id.", min=0, show_default=False)],
    offset: Annotated[int, typer.Option(help="First offset of the next micro-batch.", min=0, show_default=False)],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Have a stopped query go on at another offset in one queue; old files are kept in rocketlake-backup."""
    from rocketlake.base.disk.posix import PosixFiles
    from rocketlake.model.message_queue import MessageQueue
    from rocketlake.spark.source.checkpoint import Checkpoint

    known, where = Checkpoint(checkpoint, PosixFiles()), MessageQueue(topic, broker, queue)
    named = {"topic": topic, "broker": broker, "queue": queue, "next_offset": offset}
    now = known.next_offsets().get(where)
    what = f"have the query go on at {offset} in topic {topic}, broker {broker}, queue {queue}"
    if agreed(what, yes=yes, dry_run=dry_run, more=f"It is at {now} now.", **named):
        before = known.set(where, offset)
        tell(f"topic {topic}, broker {broker}, queue {queue}: next offset {offset}, was {before}", was=before, **named)
