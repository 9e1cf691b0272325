"""`rocketlake group list | show | lites | create | alter | mode | reset | delete`: groups, and where they go on.

Owns        options and output of these commands, the sum that is shown as lag.
Must not know   how a cluster is asked (admin/), how retries are written (group_retries.py).
"""

from __future__ import annotations

from collections.abc import Collection
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
    tell_rows,
)
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.admin import ConsumeMode, GroupReset, GroupState, GroupSummary, Member
    from rocketlake.protocol.bodies.group import GroupEntry
    from rocketlake.protocol.bodies.lite_info import LiteLag

__all__ = ["app"]

app = CommandTree(help="List consumer groups, show their lag, create, alter and delete them, set them back.")

Group = Annotated[str, typer.Argument(help="Consumer group.", show_default=False)]


@app.command("list")
def list_groups(
    everything: Annotated[
        bool,
        typer.Option("--all", "-a", help="Also groups of RocketMQ and RocketLake, and first offsets of Spark queries."),
    ] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List consumer groups: members connected now, topics, lag (messages not yet consumed)."""
    from rocketlake.admin import Admin

    async def work() -> list[GroupSummary]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.groups(everything=everything)

    rows = [(each.name, each.members, each.lag, Names(each.topics)) for each in run(work())]
    show_rows(("group", "members", "lag", "topics"), rows, output, none="no consumer groups yet")


@app.command()
def show(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show a group's members with what they hold and want, its rates, and its offset and lag in each queue.

    Lag is the messages not yet consumed, and how many seconds the first of them has been there. Offsets are those that
    members have saved: they do so each five seconds.
    """
    from rocketlake.admin import Admin

    async def work() -> tuple[GroupState, list[ConsumeMode]]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.group(group), await admin.consume_modes(group)

    found, modes = run(work())
    headings: tuple[str, ...] = (
        "topic", "broker", "queue", "next offset", "consumed", "in flight", "overdue", "lag", "lag seconds",
        "last consumed", "member",
    )  # fmt: skip
    rows: list[tuple[object, ...]] = [
        (
            each.topic,
            each.broker,
            each.queue_id,
            each.next_offset,
            each.consumed,
            each.in_flight,
            each.overdue,
            each.lag,
            None if each.lag_seconds is None else round(each.lag_seconds),
            Moment(each.last_consumed_ms),
            each.member or None,
        )
        for each in found.queues
    ]
    if output is not OutputForm.TABLE:
        known = {
            "group": group,
            "lag": found.lag,
            "lag_seconds": found.lag_seconds,
            "attributes": found.attributes,
            "members": [_member_object(each) for each in found.members],
        }
        known["taken_per_second"] = found.taken_per_second
        known["modes"] = objects(_MODE_HEADINGS, _mode_rows(modes))
        show_json(known | {"warnings": _warnings(found.members), "queues": objects(headings, rows)})
        return
    for member in found.members:
        client = f"{member.client_id} at {member.address} ({member.language} {member.version})".replace(" ( )", "")
        hold = f"holds {amount(len(member.held), 'queue')}, {amount(member.in_hand, 'message')} in hand"
        typer.echo(f"member {client} reads {_wishes(member)}; {hold}")
        for topic, its in sorted(member.rates.items()):
            each = f"{its.done_per_second:.1f} messages/s, {its.failed_per_second:.1f} failed/s"
            typer.echo(f"  {topic}: {each}, {its.took_ms:.1f} ms for each")
    if not found.members:
        typer.echo("no member is connected")
    for warning in _warnings(found.members):
        typer.secho(f"warning: {warning}", fg="yellow")
    for mode in modes:
        typer.echo(f"{mode.mode}s topic {mode.topic} at {mode.broker}")
    if rows and not any(queue.in_flight or queue.overdue for queue in found.queues):  # it does not pop
        headings, rows = (*headings[:5], *headings[7:]), [(*row[:5], *row[7:]) for row in rows]
    if rows:
        show_table(headings, rows)
    for topic, rate in found.taken_per_second.items():
        typer.echo(f"{topic}: {rate:.1f} messages/s taken")
    show_attributes(found.attributes)
    longest = f", the first of them there for {found.lag_seconds:.0f} s" if found.lag_seconds else ""
    typer.echo(f"lag {amount(found.lag, 'message')}{longest}")


@app.command()
def lites(
    group: Group,
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="Print so many.")] = 20,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show in which lite topics a group is behind most."""
    from rocketlake.admin import Admin

    async def work() -> tuple[int, list[tuple[str, LiteLag]]]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.lite_lag(group, top=top)

    total, lags = run(work())
    rows = [
        (broker, each.lite_topic, each.lag_count, Moment(each.earliest_unconsumed_timestamp)) for broker, each in lags
    ]
    show_rows(
        ("broker", "lite topic", "lag", "waits since"), rows, output, none=f"group {group} is behind in no lite topic"
    )
    shown = sum(each.lag_count for _, each in lags)
    if shown < total:
        typer.echo(f"{amount(total, 'message')} in all its lite topics; --top prints more", err=True)


@app.command()
def mode(
    group: Group,
    to: Annotated[str, typer.Argument(help="pull, which is usual, or pop.", show_default=False)],
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic that is read so.", show_default=False)],
    shared_by: Annotated[
        int, typer.Option("--shared-by", min=0, help="By so many more members each queue is popped; 0: by all.")
    ] = 0,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Have a group pull or pop a topic. Members that let brokers share the queues follow within 20 s."""
    from rocketlake.admin import Admin

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.set_consume_mode(group, topic, to, shared_by=shared_by)

    brokers = run(work())
    tell(f"group {group} {to}s topic {topic} at {', '.join(brokers)} now", group=group, topic=topic, brokers=brokers)


_MODE_HEADINGS = ("topic", "broker", "mode", "shared by")


def _mode_rows(modes: Collection[ConsumeMode]) -> list[tuple[str, str, str, int]]:
    return [(each.topic, each.broker, each.mode, each.shared_by) for each in modes]


@app.command()
def create(
    group: Group,
    tries: Annotated[
        int | None,
        typer.Option(
            "--tries",
            min=0,
            max=1000,
            help="Tries after the first, 16 if not given; then a message is given up.",
            show_default=False,
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            "-a",
            help="+NAME=VALUE, such as +lite.bind.topic=TOPIC; may be repeated.",
            show_default=False,
        ),
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Create a group on every broker that lacks it. A group that exists is never changed: see `group alter`.

    One that exists without the --tries or an --attribute that is given is an error.
    """
    from rocketlake.admin import Admin

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.create_group(group, tries=tries, attributes=",".join(attribute or ()))

    made = run(work())
    text = f"group {group} is on {', '.join(made)} now" if made else f"group {group} exists, nothing changed"
    tell(text, group=group, made=made)


@app.command()
def delete(
    group: Group,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete a stopped group and its offsets. Messages for its retries, and its dead letters, stay."""
    from rocketlake.admin import Admin

    async def look() -> GroupState:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.group(group)

    async def work() -> list[str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.delete_group(group)

    found = run(look())
    more = f"It has {amount(found.lag, 'message')} before it."
    what = f"delete group {group} and its offsets"
    if agreed(what, yes=yes, dry_run=dry_run, more=more, group=group, lag=found.lag):
        brokers = run(work())
        tell(f"group {group} deleted from {', '.join(brokers)}", group=group, brokers=brokers)


@app.command()
def alter(
    group: Group,
    tries: Annotated[
        int | None,
        typer.Option(
            "--tries", min=0, max=1000, help="Tries after the first; then it is given up.", show_default=False
        ),
    ] = None,
    pauses: Annotated[
        str | None,
        typer.Option("--pauses", help="The pause before each of them: 10s,1m,10m.", show_default=False),
    ] = None,
    growing: Annotated[
        str | None,
        typer.Option(
            "--growing", help="Pauses that grow: the first, factor, the longest: 5s,2,2h.", show_default=False
        ),
    ] = None,
    levels: Annotated[bool, typer.Option("--levels", help="The pauses of the broker's delay levels again.")] = False,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", help="+NAME=VALUE or -NAME; may be repeated.", show_default=False),
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Change how often and when messages that the group could not handle come again, or attributes, on every broker.

    Brokers of Apache follow --pauses and --growing for pop consumers only.
    """
    from rocketlake.admin import Admin
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.group_retries import policy_text, read_growing, read_pauses
    from rocketlake.protocol.bodies.group import RetryPolicyEntry

    if (pauses is not None) + (growing is not None) + levels > 1:
        raise UsageError("the pauses are given twice", hint="give --pauses, --growing or --levels")
    if tries is None and pauses is None and growing is None and not levels and not attribute:
        raise UsageError("nothing to change was given", hint="give --tries, --pauses, --growing, --levels, --attribute")
    policy = read_pauses(pauses) if pauses is not None else read_growing(growing) if growing is not None else None

    async def work() -> dict[str, GroupEntry]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.alter_group(
                group,
                tries=tries,
                policy=RetryPolicyEntry() if levels else policy,
                attributes=",".join(attribute or ()),
            )

    for broker, entry in run(work()).items():
        tell(
            f"group {group} on {broker}: {amount(entry.retry_max_times, 'try')} after the first,"
            f" {policy_text(entry.group_retry_policy)}{''.join(f', {change}' for change in attribute or ())}",
            group=group,
            tries=entry.retry_max_times,
        )


@app.command()
def reset(
    group: Group,
    topic: Annotated[str, typer.Option("--topic", help="Topic that the group reads.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="earliest; latest; a time as tables show it, 2026-11-21T10:00:00+01:00 (UTC without a zone), or ms "
            "since 1970; 10m or -1h: so long ago; an offset; -100 or +100: so many messages back or on, in each queue.",
            show_default=False,
        ),
    ],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Only this queue, broker-a/0; may be repeated.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Also a group that never read this topic.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Set a stopped group to other offsets in a topic; shows old and new offsets first."""
    from rocketlake.admin import Admin, Target
    from rocketlake.base.clock import SystemClock

    target = Target.parse(to, SystemClock().now_ms(), "--to")

    async def look() -> GroupReset:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.plan_reset(group, topic, target, queues=queue or (), force=force)

    async def work() -> None:
        async with Admin(namesrv=namesrv) as admin:
            await admin.reset_group(plan)

    plan = run(look())
    if target.kind == "time":
        tell(f"to the first message stored at or after {Moment(target.number)}", to=Moment(target.number))
    tell_rows("queues", ("broker", "queue", "now", "new", "change"), _moves(plan))
    what, known = f"set group {group} in topic {topic}", {"group": group, "topic": topic}
    if not plan.is_change:
        tell(f"{group} is there already in topic {topic}: nothing to do", **known)
    elif agreed(what, yes=yes, dry_run=dry_run, more=f"{_summary(plan)}.", **known):
        run(work())
        tell(f"done: {_summary(plan)}", **known)


def _moves(plan: GroupReset) -> list[tuple[object, ...]]:
    """Broker, queue, offset now, new offset, difference."""
    return [
        (queue.broker_name, queue.queue_id, None, plan.new[queue], None)
        if now < 0
        else (queue.broker_name, queue.queue_id, now, plan.new[queue], plan.new[queue] - now)
        for queue, now in plan.now.items()
    ]


def _summary(plan: GroupReset) -> str:
    """The number of messages that are read again, and of those that are passed over."""
    texts = [f"{amount(plan.again, 'message')} will be read again"] if plan.again else []
    texts += [f"{amount(plan.passed, 'message')} will be passed over"] if plan.passed else []
    texts += [f"{amount(plan.first, 'first offset')} given"] if plan.first else []
    return ", ".join(texts) or "nothing moves"


def _member_object(member: Member) -> dict[str, object]:
    return {
        "client": member.client_id,
        "address": member.address,
        "language": member.language or None,
        "version": member.version,
        "subscriptions": member.subscriptions,
        "queues": [f"{queue.topic} {queue.broker_name}/{queue.queue_id}" for queue in sorted(member.held)],
        "in_hand": member.in_hand,
        "rates": {
            topic: {"done_per_second": rate.done_per_second, "failed_per_second": rate.failed_per_second}
            | {"took_ms": rate.took_ms}
            for topic, rate in member.rates.items()
        },
        "settings": member.settings,
    }


def _wishes(member: Member) -> str:
    if member.subscriptions is None:
        return "what it does not tell"
    wanted = {t: text for t, text in sorted(member.subscriptions.items()) if not t.startswith("%RETRY%")}
    return ", ".join(f"{topic} ({text})" for topic, text in wanted.items()) or "nothing"


def _warnings(members: Collection[Member]) -> list[str]:
    from rocketlake.admin.groups import unequal_subscriptions

    warnings = []
    for topic, wishes in unequal_subscriptions(members).items():
        named = "; ".join(
            f"{'no subscription' if text == '-' else repr(text)}: {', '.join(clients)}"
            for text, clients in sorted(wishes.items())
        )
        warnings.append(
            f"the members want different messages of topic {topic} ({named}); messages reach nobody: "
            "give all members of a group the same subscriptions"
        )
    for member in members:
        if member.standing:
            warnings.append(
                f"{member.client_id} does not get on in {member.standing}; the messages behind it wait:"
                " mend the consumer, or have it give the message up (ConsumerConfig.reconsume_max)"
            )
    return warnings
