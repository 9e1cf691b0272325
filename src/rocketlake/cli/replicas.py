"""`rocketlake replicas list | show | history`: groups of brokers and their masters.

Owns        options and output of these commands.
Must not know   how a controller is asked (admin/replicas.py), the words for a replica (replicas_words.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli import replicas_change
from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.replicas_words import end_of_master, lag_of, no_failover, refusal_of, state_of
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
    from rocketlake.protocol.bodies.replicas import GroupView, MemberView, SwitchView

__all__ = ["app"]

app = CommandTree(help="Groups of brokers: who is the master, how far the others are; choose another master.")

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]

_LOOK_SECONDS = 0.5
"""Between two looks at a group: how fast the master's log grows says how old the end of a replica's log is."""


@app.command("list")
def list_groups(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List groups of brokers: master, replicas in step, the others."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas

    async def work() -> list[GroupView]:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).groups()

    rows = [
        (
            group.broker_name,
            group.master,
            group.master_epoch,
            Names(group.in_sync),
            Names(each.broker_id for each in group.members if each.broker_id not in group.in_sync),
            group.min_in_sync,
            refusal_of(group) or None,
            no_failover(group) or None,
        )
        for group in run(work())
    ]
    headings = ("group", "master", "epoch", "in step", "not in step", "needed", "sends refused", "no failover")
    show_rows(headings, rows, output, none="no broker has registered with the controller yet")


@app.command()
def show(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show each broker of a group: role, epoch, lag in bytes and seconds, and why it is not in step."""
    import asyncio

    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas

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
            None if each.epoch < 0 else each.epoch,
            None if each.max_offset < 0 else each.max_offset,
            *lag_of(now, each, growth),
            state_of(now, each),
        )
        for each in now.members
    ]
    if output is not OutputForm.TABLE:
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
                "sends_refused": refusal_of(now) or None,
                "no_failover": no_failover(now) or None,
                "brokers": objects(headings, rows),
            }
        )
        return
    master = "no master" if now.master is None else f"master {now.master}"
    typer.echo(f"{now.broker_name} of {now.cluster}: {master} in epoch {now.master_epoch}")
    in_step = ", ".join(map(str, now.in_sync)) or "none"
    typer.echo(f"in step: {in_step} (set {now.in_sync_epoch}); acknowledged with {amount(now.min_in_sync)} or more")
    if why := refusal_of(now):
        typer.secho(f"sends are refused: {why}", fg="red")
    if why := no_failover(now):
        typer.secho(f"no failover is possible: {why}", fg="yellow")
    show_table(headings, rows)


@app.command()
def history(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the masters that a group had, the newest first, and why each of them was chosen."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas

    async def work() -> list[SwitchView]:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).switches(group)

    rows = [
        (
            each.epoch,
            Moment(each.at_ms),
            each.before,
            each.master,
            each.address or None,
            each.why or None,
        )
        for each in run(work())
    ]
    show_rows(("epoch", "time", "from", "to", "address", "why"), rows, output, none=f"{group} had no master yet")


def _role(group: GroupView, member: MemberView) -> str:
    return "master" if member.broker_id == group.master else "slave"


for _name, _command in replicas_change.COMMANDS.items():
    app.command(_name)(_command)
