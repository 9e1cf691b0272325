"""`rocketlake broker list | show | config`: the brokers of a cluster, their figures and settings.

Owns        options and output of these commands.
Must not know   how brokers are asked (admin/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.exit_codes import ExitCode
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, show_json, show_table, tell, tell_rows
from rocketlake.cli.table import show as show_rows

if TYPE_CHECKING:
    from rocketlake.admin import BrokerState

__all__ = ["app"]

app = CommandTree(help="List the brokers of a cluster, show their figures, show and change their settings.")

Name = Annotated[str, typer.Argument(help="Name of the broker.", show_default=False)]
Id = Annotated[int, typer.Option("--id", min=0, help="Id of the broker; 0 is the master.")]


@app.command("list")
def list_brokers(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List brokers: messages in and out a second, disk, since when. Exit code 8 if one does not answer."""
    from rocketlake.admin import Admin

    async def work() -> list[BrokerState]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.brokers()

    brokers = run(work())
    headings = ("cluster", "broker", "id", "address", "version", "in/s", "out/s", "disk %", "started", "trouble")
    rows = [
        (
            each.cluster,
            each.name,
            each.broker_id,
            each.address,
            each.version or None,
            _rounded(each.in_per_second),
            _rounded(each.out_per_second),
            _rounded(None if each.disk_used_ratio is None else each.disk_used_ratio * 100),
            Moment(each.started_ms),
            each.trouble or None,
        )
        for each in brokers
    ]
    show_rows(
        headings, rows, output, none="no broker is registered; `rocketlake run broker -n <name server>` starts one"
    )
    if any(each.trouble for each in brokers):
        raise typer.Exit(ExitCode.FINDINGS)


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


@app.command()
def show(
    broker: Name,
    match: Annotated[
        str | None, typer.Option("--match", help="Only figures with this text in their names.", show_default=False)
    ] = None,
    broker_id: Id = 0,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show what a broker says of itself, by RocketMQ's names: rates over 10 s, 1 and 10 minutes, disks, waits."""
    from rocketlake.admin import Admin

    async def work() -> dict[str, str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.broker_figures(broker, broker_id)

    found = {name: value for name, value in run(work()).items() if (match or "").lower() in name.lower()}
    if output is not OutputForm.TABLE:
        show_json(found)
    else:
        show_table(("figure", "value"), found.items())


@app.command()
def config(
    broker: Name,
    match: Annotated[
        str | None, typer.Option("--match", help="Only settings with this text in their names.", show_default=False)
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting until the next start; may be repeated."),
    ] = None,
    broker_id: Id = 0,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show the settings of a running broker, or change some. All are changed or none; broker.conf stays as it is."""
    from rocketlake.admin import Admin
    from rocketlake.base.errors import UsageError

    wanted = dict(_pair(text) for text in change or ())
    if wanted and match is not None:
        raise UsageError("--match shows settings, --set changes them", hint="give one of them")

    async def look() -> dict[str, str]:
        async with Admin(namesrv=namesrv) as admin:
            return await admin.broker_settings(broker, broker_id)

    async def work() -> None:
        async with Admin(namesrv=namesrv) as admin:
            await admin.change_broker(broker, wanted, broker_id)

    settings = run(look())
    if not wanted:
        found = {key: value for key, value in sorted(settings.items()) if (match or "").lower() in key.lower()}
        if output is not OutputForm.TABLE:
            show_json(found)
        else:
            show_table(("setting", "value"), found.items())
        return
    rows = [(key, settings.get(key), value) for key, value in wanted.items()]
    tell_rows("settings", ("setting", "now", "new"), rows)
    if agreed(f"change broker {broker}", yes=yes, dry_run=dry_run, broker=broker):
        run(work())
        tell("done, until its next start: write the settings into its broker.conf, too", broker=broker)


def _pair(text: str) -> tuple[str, str]:
    from rocketlake.base.errors import UsageError

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageError(f"--set {text!r} is no setting", hint="write --set fileReservedTime=48")
    return key, value
