"""`rocketlake topic create | list | show | delete`.

Owns        options and output of these commands.
Must not know   how a cluster is asked (cluster.py).
"""

from __future__ import annotations

from typing import Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run, show_table, show_time

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Create, list, show and delete topics.")

Name = Annotated[str, typer.Argument(help="Topic name.", show_default=False)]
_PERMS = {"r": 4, "w": 2, "rw": 6}


@app.command()
def create(
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=1024, help="Queues on each broker.")] = 8,
    perm: Annotated[str, typer.Option(help="rw, r or w.")] = "rw",
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Create a topic, or change one, on every broker."""
    from rocketlake.cli.cluster import Cluster, TopicPlan

    if perm not in _PERMS:
        raise typer.BadParameter(f"'{perm}'; use rw, r or w", param_hint="--perm")

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            brokers = await cluster.create_topic(TopicPlan(topic, queues, _PERMS[perm]))
        typer.echo(f"topic {topic}: {queues} queues on {', '.join(brokers)}")

    run(work())


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those made by RocketMQ itself.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List topics."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.model import names

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            own = await cluster.broker_and_cluster_names()
            found = await cluster.topics()
        hidden = (names.is_system_topic, names.is_retry_topic, names.is_dead_letter_topic, names.is_reply_topic)
        shown = [name for name in found if everything or not (name in own or any(test(name) for test in hidden))]
        for name in shown:
            typer.echo(name)
        if not shown:
            typer.echo(
                "no topics yet; `rocketlake topic create NAME` or `rocketlake send NAME hello` makes one", err=True
            )

    run(work())


@app.command()
def show(topic: Name, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the queues of a topic: which offsets they hold, when the last message came."""
    from rocketlake.cli.cluster import Cluster

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            queues = await cluster.queues(topic)
        rows = [
            (queue.broker_name, queue.queue_id, each.min_offset, each.max_offset, show_time(each.last_update_timestamp))
            for queue, each in queues.items()
        ]
        total = sum(each.max_offset - each.min_offset for each in queues.values())
        show_table(("broker", "queue", "first offset", "next offset", "last message"), rows)
        typer.echo(f"{total:,} messages in {len(queues)} queues")

    run(work())


@app.command()
def delete(
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete a topic and all its messages."""
    from rocketlake.cli.cluster import Cluster

    async def count() -> int:
        async with Cluster(namesrv) as cluster:
            return sum(each.max_offset - each.min_offset for each in (await cluster.queues(topic)).values())

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            brokers = await cluster.delete_topic(topic)
        typer.echo(f"topic {topic} deleted from {', '.join(brokers)}")

    if not yes:
        typer.confirm(f"delete topic {topic} and its {run(count()):,} messages?", abort=True)
    run(work())
