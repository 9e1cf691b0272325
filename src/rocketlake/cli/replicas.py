"""`rocketlake replicas list | show | history`: groups of brokers and their masters.

Owns        options and output of these commands.
Must not know   how a controller is asked, the words for a replica (admin/replicas).
"""

from __future__ import annotations

from typing import Annotated

import typer

from rocketlake.cli import replicas_change
from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
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

__all__ = ["app"]

app = CommandTree(help="Groups of brokers: who is the master, how far the others are; choose another master.")

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]

_LOOK_SECONDS = 0.5
"""Between two looks at a group: how fast the master's log grows says how old the end of a replica's log is."""


@app.command("list")
def list_groups(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List groups of brokers: master, replicas in step, the others."""
    from rocketlake.admin import Admin, ReplicaGroup

    async def work() -> list[ReplicaGroup]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.replica_groups()

    rows = [
        (
            group.name,
            group.master,
            group.master_epoch,
            Names(group.in_step),
            Names(each.broker_id for each in group.members if not each.in_step),
            group.needed,
            group.sends_refused or None,
            group.no_failover or None,
        )
        for group in run(work())
    ]
    headings = ("group", "master", "epoch", "in step", "not in step", "needed", "sends refused", "no failover")
    show_rows(headings, rows, output, none="no broker has registered with the controller yet")


@app.command()
def show(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show each broker of a group: role, epoch, lag in bytes and seconds, and why it is not in step."""
    from rocketlake.admin import Admin, ReplicaGroup

    async def work() -> ReplicaGroup:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.replica_group(group, over_seconds=_LOOK_SECONDS)

    now = run(work())
    headings = ("id", "role", "address", "epoch", "log end", "lag", "lag seconds", "state")
    rows = [
        (
            each.broker_id,
            "master" if each.is_master else "slave",
            each.address,
            None if each.epoch < 0 else each.epoch,
            None if each.log_end < 0 else each.log_end,
            each.lag_bytes,
            each.lag_seconds,
            each.state,
        )
        for each in now.members
    ]
    if output is not OutputForm.TABLE:
        show_json(
            {
                "group": now.name,
                "cluster": now.cluster,
                "master": now.master,
                "master_epoch": now.master_epoch,
                "in_step": now.in_step,
                "set_epoch": now.set_epoch,
                "may_be_elected": now.may_be_elected,
                "needed": now.needed,
                "sends_refused": now.sends_refused or None,
                "no_failover": now.no_failover or None,
                "brokers": objects(headings, rows),
            }
        )
        return
    master = "no master" if now.master is None else f"master {now.master}"
    typer.echo(f"{now.name} of {now.cluster}: {master} in epoch {now.master_epoch}")
    in_step = ", ".join(map(str, now.in_step)) or "none"
    typer.echo(f"in step: {in_step} (set {now.set_epoch}); acknowledged with {amount(now.needed)} or more")
    if now.sends_refused:
        typer.secho(f"sends are refused: {now.sends_refused}", fg="red")
    if now.no_failover:
        typer.secho(f"no failover is possible: {now.no_failover}", fg="yellow")
    show_table(headings, rows)


@app.command()
def history(group: Group, output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show the masters that a group had, the newest first, and why each of them was chosen."""
    from rocketlake.admin import Admin, MasterSwitch

    async def work() -> list[MasterSwitch]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.master_switches(group)

    rows = [
        (each.epoch, Moment(each.at_ms), each.before, each.master, each.address or None, each.why or None)
        for each in run(work())
    ]
    show_rows(("epoch", "time", "from", "to", "address", "why"), rows, output, none=f"{group} had no master yet")


for _name, _command in replicas_change.COMMANDS.items():
    app.command(_name)(_command)
