"""`rocketlake cluster show`: a cluster at a glance.

Owns        options and output of this command.
Must not know   how a cluster is asked (admin/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.exit_codes import ExitCode
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, OutputForm, amount, show_json

if TYPE_CHECKING:
    from rocketlake.admin import BrokerState, GroupSummary

__all__ = ["app"]

app = CommandTree(help="A cluster at a glance.")


@app.callback()
def _options() -> None:
    """With a callback the single command keeps its name."""


@app.command()
def show(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Show how a cluster is: brokers, topics, groups, rates, lag, disk. Exit code 8 if a broker does not answer."""
    from rocketlake.admin import Admin

    async def work() -> tuple[list[BrokerState], list[str], list[GroupSummary]]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.brokers(), await admin.topics(), await admin.groups()

    brokers, topics, groups = run(work())
    masters = [each for each in brokers if each.broker_id == 0]
    troubles = [f"{each.name} {each.broker_id} at {each.address}: {each.trouble}" for each in brokers if each.trouble]
    known: dict[str, Any] = {
        "clusters": sorted({each.cluster for each in brokers}),
        "name_servers": namesrv.split(";"),
        "brokers": len(brokers),
        "masters": len(masters),
        "topics": len(topics),
        "groups": len(groups),
        "in_per_second": sum(each.in_per_second or 0.0 for each in masters),
        "out_per_second": sum(each.out_per_second or 0.0 for each in brokers),
        "lag": sum(each.lag for each in groups),
        "disk_used_ratio": max((each.disk_used_ratio or 0.0 for each in brokers), default=None),
        "troubles": troubles,
    }
    if output is not OutputForm.TABLE:
        show_json(known)
    else:
        disk = known["disk_used_ratio"]
        typer.echo(
            f"cluster       {', '.join(known['clusters']) or '-'}, name servers {', '.join(known['name_servers'])}"
        )
        typer.echo(f"brokers       {amount(len(brokers))}, {amount(len(masters), 'master')}")
        typer.echo(f"topics        {amount(len(topics))}")
        typer.echo(f"groups        {amount(len(groups))}, {amount(known['lag'], 'message')} not consumed")
        typer.echo(f"messages      {known['in_per_second']:.1f}/s in, {known['out_per_second']:.1f}/s out")
        typer.echo(f"fullest disk  {'-' if disk is None else f'{disk:.0%}'}")
        for trouble in troubles:
            typer.secho(f"warning: {trouble}", fg="yellow")
    if troubles:
        raise typer.Exit(ExitCode.FINDINGS)
