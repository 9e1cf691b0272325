"""`rocketlake group list | show`: consumer groups and how far they are.

Owns        options and output of these commands, the sum called lag.
Must not know   how a cluster is asked (cluster.py).
"""

from __future__ import annotations

from typing import Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run, show_table, show_time

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List consumer groups and show their lag.")


@app.command("list")
def list_groups(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also the system's own groups.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List consumer groups: members connected now, topics, lag (messages not yet consumed)."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.model.names import is_system_group

    async def work() -> None:
        rows = []
        async with Cluster(namesrv) as cluster:
            for name in await cluster.groups():
                if is_system_group(name) and not everything:
                    continue
                offsets = await cluster.group_offsets(name)
                topics = sorted({queue.topic for queue in offsets if not queue.topic.startswith("%RETRY%")})
                lag = sum(each.broker_offset - each.consumer_offset for each in offsets.values())
                rows.append((name, len(await cluster.members(name)), lag, ", ".join(topics) or "-"))
        if rows:
            show_table(("group", "members", "lag", "topics"), rows)
        else:
            typer.echo("no consumer groups yet", err=True)

    run(work())


@app.command()
def show(
    group: Annotated[str, typer.Argument(help="Consumer group.", show_default=False)],
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show a group's members, and its offset and lag in each queue."""
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.cluster import Cluster

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            offsets = await cluster.group_offsets(group)
            members = await cluster.members(group)
            if not offsets and not members and group not in await cluster.groups():
                raise UsageError(f"no broker knows group {group!r}", hint="`rocketlake group list` shows all groups")
        rows = [
            (
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                each.broker_offset,
                each.consumer_offset,
                each.broker_offset - each.consumer_offset,
                show_time(each.last_timestamp),
            )
            for queue, each in offsets.items()
        ]
        for client, address in sorted(members.items()):
            typer.echo(f"member {client} at {address}")
        if not members:
            typer.echo("no member is connected")
        if rows:
            show_table(("topic", "broker", "queue", "next offset", "consumed", "lag", "last consumed"), rows)
        typer.echo(f"lag {sum(int(row[5]) for row in rows):,} messages")

    run(work())
