"""`rocketlake topic create | spread | alter | list | show | lites | purge | delete`.

Owns        options and output of these commands.
Must not know   how a cluster is asked, the effects of an alteration, how a topic is drained (admin/).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.table import (
    OUTPUT_DEFAULT,
    Moment,
    Names,
    Output,
    OutputForm,
    amount,
    objects,
    show_attributes,
    show_json,
    show_table,
    tell,
)
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.admin import TopicMade, TopicState
    from rocketlake.admin.topic_drain import Draining
    from rocketlake.admin.topics import Altered
    from rocketlake.model.topic import TopicConfig
    from rocketlake.protocol.bodies.lite_info import LiteTopicInfo, ParentTopicInfo

__all__ = ["app"]

app = CommandTree(help="Create, spread, alter, list, show, purge and delete topics.")

Name = Annotated[str, typer.Argument(help="Topic name.", show_default=False)]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        "-a",
        help="+NAME=VALUE or -NAME, such as +quota.bytes.in=1048576; may be repeated.",
        show_default=False,
    ),
]
Lake = Annotated[
    str | None,
    typer.Option(
        help="Keep the topic as a table: delta, iceberg, parquet; off: not. `lake serve` writes it.",
        show_default=False,
    ),
]


@app.command()
def create(
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=1024, help="Queues on each broker.")] = 8,
    perm: Annotated[str, typer.Option(help="rw, r or w.")] = "rw",
    lake: Lake = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave the topic as it is on brokers that have it; no error.")
    ] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Create a topic on every broker. A topic that exists is never changed: see `topic alter`."""
    from rocketlake.admin import Admin
    from rocketlake.admin.topic_change import settings_text
    from rocketlake.model.table_wish import format_change

    attributes = format_change(lake or "off")
    attributes = attributes if attributes.startswith("+") else ""  # a new topic has none to take away

    async def work() -> TopicMade:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.create_topic(
                topic, queues=queues, perm=perm, attributes=attributes, if_not_exists=if_not_exists
            )

    done = run(work())
    if done.there:
        tell(f"topic {topic} exists, nothing changed: {settings_text(done.there)}", there=sorted(done.there))
    if done.made:
        tell(f"topic {topic}: {amount(queues, 'queue')} on {', '.join(done.made)}", topic=topic, made=done.made)


@app.command()
def spread(topic: Name, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Create a topic on the brokers that lack it, with the settings that it has elsewhere.

    A topic made by its first send lies on one broker only, and a broker that is added has no topic of the others.
    """
    from rocketlake.admin import Admin
    from rocketlake.admin.topic_change import settings_text

    async def work() -> TopicMade:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.spread_topic(topic)

    done = run(work())
    if done.made:
        has = settings_text(done.there, brokers=False)
        tell(f"topic {topic} is on {', '.join(done.made)}, too: {has}", topic=topic, made=done.made)
    else:
        tell(f"topic {topic} is on every broker: {settings_text(done.there)}", topic=topic, made=[])


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
    attribute: Attributes = None,
    lake: Lake = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="First end sends, for 40 s at least, until all groups have read it: keys keep order."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Change the topic even if messages come out of reach.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--broker", help="Only on this broker; may be repeated.", show_default=False),
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Change queues, permission or attributes of a topic on every broker that has it; other settings stay."""
    from rocketlake.admin import Admin, TopicChange
    from rocketlake.admin.topic_change import settings_text
    from rocketlake.admin.topics import perm_of
    from rocketlake.base.errors import UsageError
    from rocketlake.model.table_wish import format_change

    if only and drain:
        raise UsageError("--drain ends sends on every broker", hint="leave --broker out, or --drain")
    change = TopicChange(
        read_queues=read_queues or queues,
        write_queues=write_queues or queues,
        perm=None if perm is None else perm_of(perm),
        attributes=",".join([*(attribute or ()), *([format_change(lake)] if lake else [])]),
    )

    async def work() -> Altered:
        async with Admin(namesrv=namesrv) as admin:
            told = partial(_say_draining, topic) if drain else None
            return await admin.alter_topic(topic, change, force=force, drain=told, brokers=only or ())

    altered = run(work())
    if altered.after == altered.before and not change.attributes:
        tell(f"topic {topic}: nothing to change, it has {settings_text(altered.before)}", topic=topic, changed=[])
        return
    if altered.moves_keys and not drain:
        typer.secho(
            f"warning: equal keys (send(..., key=...)) go to other queues of {topic} from now on: their"
            " messages may be read before older ones, which wait in the old queues; --drain waits for these",
            fg="yellow",
            err=True,
        )
    for broker, config in altered.after.items():
        before = settings_text({broker: altered.before[broker]}, brokers=False)
        after = settings_text({broker: config}, brokers=False)
        text = f"topic {topic} on {broker}: {before} -> {after} {change.attributes}".rstrip()
        tell(text, topic=topic, changed=sorted(altered.after))


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also topics of RocketMQ itself.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List topics."""
    from rocketlake.admin import Admin

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.topics(everything=everything)

    shown = run(work())
    if output is not OutputForm.TABLE:
        show_json(shown)
    elif shown:
        typer.echo("\n".join(shown))
    else:
        typer.echo(
            "no topics yet; `rocketlake topic create NAME` or `rocketlake produce NAME hello` makes one", err=True
        )


@app.command()
def show(topic: Name, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the queues of a topic: their offsets, and the times of the first and the last message they hold."""
    from rocketlake.admin import Admin
    from rocketlake.admin.topic_change import settings_text

    async def work() -> TopicState:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.topic(topic)

    found = run(work())
    headings = ("broker", "queue", "first offset", "next offset", "first message", "last message")
    rows = [
        (each.broker, each.queue_id, each.first_offset, each.next_offset, Moment(each.first_ms), Moment(each.last_ms))
        for each in found.queues
    ]
    if output is not OutputForm.TABLE:
        known = {"topic": topic, "messages": found.messages, "missing_on": found.missing_on}
        known["settings"] = {broker: _settings(config) for broker, config in sorted(found.settings.items())}
        show_json(known | {"queues": objects(headings, rows)})
        return
    show_table(headings, rows)
    typer.echo(f"{amount(found.messages, 'message')}; {settings_text(found.settings)}")
    show_attributes({broker: config.attributes for broker, config in found.settings.items()})
    if found.missing_on:
        typer.secho(
            f"warning: {', '.join(found.missing_on)} has no queue of this topic: the others carry all its messages;"
            f" `rocketlake topic spread {topic}` makes it there, too",
            fg="yellow",
        )


@app.command()
def lites(
    topic: Name,
    lite: Annotated[str | None, typer.Argument(help="One lite topic of it.", show_default=False)] = None,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show how many lite topics a topic has, or the messages and the subscribers of one."""
    from rocketlake.admin import Admin

    async def ask_parent() -> dict[str, ParentTopicInfo]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.lite_parent(topic)

    async def ask_lite(name: str) -> dict[str, LiteTopicInfo]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.lite_topic(topic, name)

    if lite is None:
        counts = [
            (broker, each.lite_topic_count, each.ttl if each.ttl > 0 else "never", Names(sorted(each.groups or ())))
            for broker, each in run(ask_parent()).items()
        ]
        show_rows(("broker", "lite topics", "expire after minutes", "groups"), counts, output)
        return
    rows = [
        (
            broker,
            each.topic_offset.min_offset,
            each.topic_offset.max_offset,
            Moment(each.topic_offset.last_update_timestamp),
            Names(sorted(f"{client.client_id} of {client.group}" for client in each.subscriber)),
        )
        for broker, each in run(ask_lite(lite)).items()
    ]
    show_rows(("broker", "first offset", "next offset", "last message", "subscribers"), rows, output)


@app.command()
def purge(
    topic: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Purge the topic even while consumer groups read it.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete all messages of a topic; it stays with its settings. Stop its senders: it is away for a moment."""
    from rocketlake.admin import Admin

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.purge_topic(topic, force=force)

    count = _count_to_delete(topic, namesrv, force=force)
    what = f"delete {amount(count, 'message')} of topic {topic}"
    if agreed(what, yes=yes, dry_run=dry_run, topic=topic, messages=count):
        brokers = run(work())
        tell(f"{amount(count, 'message')} of topic {topic} deleted from {', '.join(brokers)}", brokers=brokers)


@app.command()
def delete(
    topic: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the topic even while consumer groups read it.")
    ] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete a topic and all its messages."""
    from rocketlake.admin import Admin

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.delete_topic(topic, force=True)

    count = _count_to_delete(topic, namesrv, force=force)
    what = f"delete topic {topic} and its {amount(count, 'message')}"
    if agreed(what, yes=yes, dry_run=dry_run, topic=topic, messages=count):
        brokers = run(work())
        tell(f"topic {topic} deleted from {', '.join(brokers)}", topic=topic, messages=count, brokers=brokers)


def _count_to_delete(topic: str, namesrv: str, *, force: bool) -> int:
    """The messages that would go. Raises what the deletion would."""
    from rocketlake.admin import Admin

    async def look() -> int:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.check_topic_deletion(topic, force=force)

    return run(look())


def _say_draining(topic: str, now: Draining) -> None:
    quiet = f"no message came for {now.quiet_seconds:.0f} of {now.quiet_seconds_wanted:.0f} s"
    waits = ", ".join(f"{group} {amount(lag)}" for group, lag in now.behind.items()) or "none"
    typer.echo(f"{quiet}; groups that have messages of {topic} before them: {waits}", err=True)


def _settings(config: TopicConfig) -> dict[str, object]:
    from rocketlake.model.topic import Perm

    perm = ("r" if config.perm & Perm.READ else "") + ("w" if config.perm & Perm.WRITE else "")
    queues = {"read_queues": config.read_queues, "write_queues": config.write_queues}
    return {**queues, "perm": perm, "order": config.order, "attributes": dict(config.attributes)}
