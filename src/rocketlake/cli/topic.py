"""`rocketlake topic create | spread | alter | list | show | delete`.

Owns        options and output of these commands.
Must not know   how a cluster is asked (cluster.py), the effects of an alteration (topic_change.py), how a topic is
            drained (topic_drain.py).
"""

from __future__ import annotations

from typing import Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, confirm, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, amount, objects, show_json, show_table

__all__ = ["app"]

app = CommandTree(help="Create, spread, alter, list, show and delete topics.")

Name = Annotated[str, typer.Argument(help="Topic name.", show_default=False)]
_PERMS = {"r": 4, "w": 2, "rw": 6}


def _perm(text: str) -> int:
    if text not in _PERMS:
        raise typer.BadParameter(f"'{text}'; use rw, r or w", param_hint="--perm")
    return _PERMS[text]


def _refuse_system(topic: str) -> None:
    from rocketlake.base.errors import UsageError
    from rocketlake.model.names import is_system_topic

    if is_system_topic(topic):
        raise UsageError(f"topic {topic!r} belongs to RocketMQ itself", hint="name a topic of your own")


@app.command()
def create(
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=1024, help="Queues on each broker.")] = 8,
    perm: Annotated[str, typer.Option(help="rw, r or w.")] = "rw",
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave the topic as it is on brokers that have it; no error.")
    ] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Create a topic on every broker. A topic that exists is never changed: see `topic alter`."""
    from rocketlake.base.errors import RocketLakeError
    from rocketlake.cli.cluster import Cluster, TopicPlan
    from rocketlake.cli.topic_change import settings_text
    from rocketlake.model.names import check_topic

    plan = TopicPlan(topic, queues, _perm(perm))
    check_topic(topic)
    _refuse_system(topic)

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            there = await cluster.settings(topic)
            if there and not if_not_exists:
                raise RocketLakeError(
                    f"topic {topic!r} exists: {settings_text(there)}",
                    where=cluster.where,
                    hint=f"`rocketlake topic alter {topic}` changes it; --if-not-exists leaves it as it is",
                )
            missing = {*await cluster.masters()} - {*there}
            made = await cluster.create_topic(plan, missing) if missing else []
        if there:
            typer.echo(f"topic {topic} exists, nothing changed: {settings_text(there)}")
        if made:
            typer.echo(f"topic {topic}: {amount(queues, 'queue')} on {', '.join(made)}")

    run(work())


@app.command()
def spread(topic: Name, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Create a topic on the brokers that lack it, with the settings that it has elsewhere.

    A topic made by its first send lies on one broker only, and a broker that is added has no topic of the others.
    """
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.topic_change import settings_text

    _refuse_system(topic)

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await cluster.route(topic)
            there = await cluster.settings(topic)
            missing = {*await cluster.masters()} - {*there}
            if not missing or not there:
                typer.echo(f"topic {topic} is on every broker: {settings_text(there)}")
                return
            await cluster.put_topic(dict.fromkeys(sorted(missing), next(iter(there.values()))))
            typer.echo(f"topic {topic} is on {', '.join(sorted(missing))}, too: {settings_text(there, brokers=False)}")

    run(work())


@app.command()
def alter(
    topic: Name,
    queues: Annotated[
        int | None,
        typer.Option("--queues", "-q", min=1, max=1024, help="Queues to read and to write.", show_default=False),
    ] = None,
    read_queues: Annotated[
        int | None, typer.Option("--read-queues", min=1, max=1024, help="Queues to read only.", show_default=False)
    ] = None,
    write_queues: Annotated[
        int | None, typer.Option("--write-queues", min=1, max=1024, help="Queues to write only.", show_default=False)
    ] = None,
    perm: Annotated[str | None, typer.Option(help="rw, r or w.", show_default=False)] = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="First end sends, for 40 s at least, until all groups have read it: keys keep order."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Change the topic even if messages come out of reach.")
    ] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Change queues or permission of a topic on every broker that has it; other settings stay."""
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.topic_change import TopicChange, moves_keys, refuse_losses, settings_text
    from rocketlake.cli.topic_drain import drained

    change = TopicChange(
        read_queues=read_queues or queues,
        write_queues=write_queues or queues,
        perm=None if perm is None else _perm(perm),
    )
    _refuse_system(topic)
    if change.is_empty:
        raise UsageError("nothing to change was given", hint="give --queues, --read-queues, --write-queues or --perm")

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await cluster.route(topic)
            before = await cluster.settings(topic)
            after = {broker: change.of(config) for broker, config in before.items()}
            if after == before:
                typer.echo(f"topic {topic}: nothing to change, it has {settings_text(before)}")
                return
            if not force:
                refuse_losses(before, after, await cluster.queues(topic), where=cluster.where)
            if drain:
                await drained(cluster, topic, before)
            elif moves_keys(before, after):
                typer.secho(
                    f"warning: equal keys (send(..., key=...)) go to other queues of {topic} from now on: their"
                    " messages may be read before older ones, which wait in the old queues; --drain waits for these",
                    fg="yellow",
                    err=True,
                )
            changed = {broker: after[broker] for broker in after if drain or after[broker] != before[broker]}
            await cluster.put_topic(changed)
        for broker, config in after.items():
            typer.echo(
                f"topic {topic} on {broker}: {settings_text({broker: before[broker]}, brokers=False)} -> "
                f"{settings_text({broker: config}, brokers=False)}"
            )

    run(work())


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also topics of RocketMQ itself.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List topics."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.model import names

    async def work() -> list[str]:
        async with Cluster(namesrv) as cluster:
            own = await cluster.broker_and_cluster_names()
            found = await cluster.topics()
        hidden = (names.is_system_topic, names.is_retry_topic, names.is_dead_letter_topic, names.is_reply_topic)
        return [name for name in found if everything or not (name in own or any(test(name) for test in hidden))]

    shown = run(work())
    if output is OutputForm.JSON:
        show_json(shown)
    elif shown:
        typer.echo("\n".join(shown))
    else:
        typer.echo("no topics yet; `rocketlake topic create NAME` or `rocketlake send NAME hello` makes one", err=True)


@app.command()
def show(topic: Name, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the queues of a topic: their offsets, and the time of the last message."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.topic_change import settings_text

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            queues = await cluster.queues(topic)
            settings = await cluster.settings(topic)
            missing = sorted({*await cluster.masters()} - {*settings})
        headings = ("broker", "queue", "first offset", "next offset", "last message")
        rows = [
            (queue.broker_name, queue.queue_id, each.min_offset, each.max_offset, Moment(each.last_update_timestamp))
            for queue, each in queues.items()
        ]
        total = sum(each.max_offset - each.min_offset for each in queues.values())
        if output is OutputForm.JSON:
            show_json({"topic": topic, "messages": total, "missing_on": missing, "queues": objects(headings, rows)})
            return
        show_table(headings, rows)
        typer.echo(f"{amount(total, 'message')}; {settings_text(settings)}")
        if missing:
            typer.secho(
                f"warning: {', '.join(missing)} has no queue of this topic: the others carry all its messages;"
                f" `rocketlake topic spread {topic}` makes it there, too",
                fg="yellow",
            )

    run(work())


@app.command()
def delete(
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the topic even while consumer groups read it.")
    ] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete a topic and all its messages."""
    from rocketlake.base.errors import RocketLakeError
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_groups import ClusterGroups

    _refuse_system(topic)

    async def look() -> int:
        async with Cluster(namesrv) as cluster:
            count = sum(each.max_offset - each.min_offset for each in (await cluster.queues(topic)).values())
            readers = await ClusterGroups(cluster).readers(topic)
            if readers and not force:
                groups = ", ".join(f"{group} ({amount(len(who), 'member')})" for group, who in readers.items())
                raise RocketLakeError(
                    f"topic {topic!r} is being read by {groups}",
                    where=cluster.where,
                    hint="stop these consumers first, or delete it under them with --force",
                )
            return count

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            brokers = await cluster.delete_topic(topic)
        typer.echo(f"topic {topic} deleted from {', '.join(brokers)}")

    count = run(look())
    if not yes:
        confirm(f"delete topic {topic} and its {amount(count, 'message')}?")
    run(work())
