"""`rocketlake replicas list | show | history | hand-over | elect | remove`: groups of brokers and their masters.

Owns        options and output of these commands, the words for why a replica is not in step.
Must not know   how a controller is asked (cluster_replicas.py), how it decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, confirm, run
from rocketlake.cli.table import (
    OUTPUT_DEFAULT,
    Moment,
    Names,
    Output,
    OutputForm,
    amount,
    objects,
    show_json,
    show_table,
)
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = ["app"]

app = CommandTree(help="Groups of brokers: who is the master, how far the others are; choose another master.")

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker, as `rocketlake replicas show` lists it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

_LOOK_SECONDS = 0.5
"""Between two looks at a group: how fast the master's log grows says how old the end of a replica's log is."""


@app.command("list")
def list_groups(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List groups of brokers: master, replicas in step, the others."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    async def work() -> list[GroupView]:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).groups()

    rows = [
        (
            group.broker_name,
            "-" if group.master is None else group.master,
            group.master_epoch,
            Names(map(str, group.in_sync)),
            Names(str(each.broker_id) for each in group.members if each.broker_id not in group.in_sync),
            group.min_in_sync,
        )
        for group in run(work())
    ]
    headings = ("group", "master", "epoch", "in step", "not in step", "needed")
    show_rows(headings, rows, output, none="no broker has registered with the controller yet")


@app.command()
def show(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show each broker of a group: role, epoch, lag in bytes and seconds, and why it is not in step."""
    import asyncio

    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    async def work() -> tuple[GroupView, GroupView]:
        async with Cluster(namesrv) as cluster:
            replicas = ClusterReplicas(cluster)
            before = await replicas.group(group)
            await asyncio.sleep(_LOOK_SECONDS)
            return before, await replicas.group(group)

    before, now = run(work())
    growth = max(0, end_of_master(now) - end_of_master(before)) / _LOOK_SECONDS
    headings = ("id", "role", "address", "epoch", "log end", "lag", "lag seconds", "state")
    rows = [
        (
            each.broker_id,
            _role(now, each),
            each.address,
            "-" if each.epoch < 0 else each.epoch,
            "-" if each.max_offset < 0 else each.max_offset,
            *lag_of(now, each, growth),
            state_of(now, each),
        )
        for each in now.members
    ]
    if output is OutputForm.JSON:
        show_json(
            {
                "group": now.broker_name,
                "cluster": now.cluster,
                "master": now.master,
                "master_epoch": now.master_epoch,
                "in_step": now.in_sync,
                "set_epoch": now.in_sync_epoch,
                "may_be_elected": now.eligible,
                "needed": now.min_in_sync,
                "brokers": objects(headings, rows),
            }
        )
        return
    master = "no master" if now.master is None else f"master {now.master}"
    typer.echo(f"{now.broker_name} of {now.cluster}: {master} in epoch {now.master_epoch}")
    in_step = ", ".join(map(str, now.in_sync)) or "none"
    typer.echo(f"in step: {in_step} (set {now.in_sync_epoch}); acknowledged with {amount(now.min_in_sync)} or more")
    show_table(headings, rows)


@app.command()
def history(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the masters that a group had, the newest first, and why each of them was chosen."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas
    from rocketlake.protocol.bodies.replicas import SwitchView

    async def work() -> list[SwitchView]:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).switches(group)

    rows = [
        (
            each.epoch,
            Moment(each.at_ms),
            "-" if each.before is None else each.before,
            "-" if each.master is None else each.master,
            each.address or "-",
            each.why or "-",
        )
        for each in run(work())
    ]
    show_rows(("epoch", "time", "from", "to", "address", "why"), rows, output, none=f"{group} had no master yet")


@app.command("hand-over")
def hand_over(group: Group, to: BrokerId, yes: Yes = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Make another broker that is in step the master. Nothing is lost; sends wait for a moment."""
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    if to == found.master:
        typer.echo(f"broker {to} is the master of {group} already: nothing to do")
        return
    if to not in found.in_sync:
        raise UsageError(
            f"broker {to} of {group} is not in step: {_words(found, to)}",
            hint="choose one that `rocketlake replicas show` lists as in step, or wait",
        )
    if not yes:
        confirm(f"make broker {to} the master of {group} instead of {found.master}? Sends wait for a moment.")
    _elect(found, to, namesrv)


@app.command()
def elect(
    group: Group,
    to: Annotated[int | None, typer.Option("--to", help="This broker or none.", show_default=False)] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a broker that may lack acknowledged messages: they are lost then.")
    ] = False,
    yes: Yes = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Choose a master for a group that has none. With --force it says what may be lost, and asks."""
    found = _look(group, namesrv)
    if force:
        for line in losses(found, to):
            typer.secho(f"warning: {line}", fg="yellow", err=True)
        if not yes:
            confirm(f"choose a master of {group} all the same?")
    _elect(found, to, namesrv, unclean=force)


@app.command()
def remove(group: Group, broker_id: BrokerId, yes: Yes = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Forget a dead broker that does not come back. Its id is not given to another one."""
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    found = _look(group, namesrv)
    if broker_id not in [each.broker_id for each in found.members]:
        raise UsageError(f"{group} has no broker {broker_id}", hint=f"`rocketlake replicas show {group}` lists them")
    if not yes:
        confirm(f"forget broker {broker_id} of {group} ({_words(found, broker_id)})?")

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await ClusterReplicas(cluster).remove(found, broker_id)

    run(work())
    typer.echo(f"broker {broker_id} of {group} is forgotten")


def _look(group: str, namesrv: str) -> GroupView:
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    async def work() -> GroupView:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).group(group)

    return run(work())


def _elect(group: GroupView, to: int | None, namesrv: str, *, unclean: bool = False) -> None:
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas
    from rocketlake.protocol.headers.controller import ElectMasterReplyHeader

    async def work() -> ElectMasterReplyHeader:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).elect(group, to, unclean=unclean)

    now = run(work())
    where = f"broker {now.master_broker_id} at {now.master_address}"
    typer.echo(f"the master of {group.broker_name} is {where}, in epoch {now.master_epoch}")


# -- words -------------------------------------------------------------------------------------------------------------


def end_of_master(group: GroupView) -> int:
    """Where the master's log ends, by its last heartbeat; without a master, the furthest end that is known."""
    ends = {each.broker_id: each.max_offset for each in group.members}
    return max(0, ends.get(group.master, -1) if group.master is not None else max(ends.values(), default=-1))


def lag_of(group: GroupView, member: MemberView, growth: float) -> tuple[int | str, int | float | str]:
    """Bytes that the replica lacks, and seconds in which the master wrote so many. `growth`: bytes a second."""
    if member.broker_id == group.master:
        return "-", "-"
    if member.max_offset < 0:
        return "?", "?"
    lag = max(0, end_of_master(group) - member.max_offset)
    if lag == 0:
        return 0, 0
    return lag, round(lag / growth, 1) if growth else "?"


def state_of(group: GroupView, member: MemberView) -> str:
    """In step, or why it is not, in words."""
    if member.broker_id == group.master:
        return "in step" if member.pulse == "ALIVE" else _PULSES[member.pulse].format(_seconds(member.silent_ms))
    why = _obstacle(group, member)
    if member.broker_id in group.in_sync:
        return f"in step, but {why}" if why and member.pulse != "ALIVE" else "in step"
    kept = "; it holds all that was acknowledged" if member.broker_id in group.eligible else ""
    return f"not in step: {why or 'the master has not taken it in yet'}{kept}"


_PULSES = {
    "ALIVE": "",
    "CLOSED": "the link of its heartbeats has ended",
    "SILENT": "no heartbeat for {}",
    "UNHEARD": "it has sent no heartbeat to this controller",
    "REFUSED": "nothing listens at its address",
}


def _obstacle(group: GroupView, member: MemberView) -> str:
    if member.pulse != "ALIVE":
        return _PULSES.get(member.pulse, member.pulse).format(_seconds(member.silent_ms))
    if member.broker_id in group.doubtful:
        return "its machine started anew, the end of its log may be missing"
    if group.master is None:
        return "there is no master to follow"
    if member.ha_silent_ms is not None and member.ha_silent_ms > 1000:
        return f"it has heard nothing of its master for {_seconds(member.ha_silent_ms)}"
    lag = end_of_master(group) - member.max_offset
    return f"it lacks {amount(lag, 'byte')}" if member.max_offset >= 0 and lag > 0 else ""


def losses(group: GroupView, to: int | None) -> list[str]:
    """What a forced election may lose, one line a candidate."""
    known = max([each.confirm_offset for each in group.members], default=-1)
    if group.master is not None:
        return [f"{group.broker_name} has a master, broker {group.master}: nothing needs to be forced"]
    lines = []
    for each in group.members:
        if to is not None and each.broker_id != to:
            continue
        if each.broker_id in (*group.in_sync, *group.eligible):
            lines.append(f"broker {each.broker_id} holds all that was acknowledged: nothing is lost if it is chosen")
        elif each.max_offset < 0:
            lines.append(f"broker {each.broker_id} has not said where its log ends: what it lacks is not known")
        else:
            lacking = max(0, known - each.max_offset)
            least = (
                f"at least {amount(lacking, 'byte')} of acknowledged messages" if lacking else "acknowledged messages"
            )
            lines.append(f"broker {each.broker_id} may lack {least}: these are lost if it is chosen")
    return lines


def _words(group: GroupView, broker_id: int) -> str:
    found = [state_of(group, each) for each in group.members if each.broker_id == broker_id]
    return found[0] if found else "the group has no such broker"


def _role(group: GroupView, member: MemberView) -> str:
    return "master" if member.broker_id == group.master else "slave"


def _seconds(milliseconds: int | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
