"""`rocketlake takeover`: another broker of a name becomes its master, as planned, while clients go on.

Owns        the options, the questions, the words behind it.
Must not know   the steps (migration/handover.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, Yes, agreed, run
from rocketlake.cli.table import tell

if TYPE_CHECKING:
    from rocketlake.admin.migration.handover import Handover

__all__ = ["takeover"]


def takeover(
    name: Annotated[str, typer.Argument(help="brokerName of the master and its slaves.", show_default=False)],
    to: Annotated[
        int | None,
        typer.Option(help="brokerId of the new master; else the only RocketLake slave.", show_default=False),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Longest wait, in seconds, until the slave is in step.")] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how it stands, and change nothing.")] = False,
    leave_behind: Annotated[
        bool, typer.Option("--leave-behind", help="Also if messages wait where only Apache's brokers find them.")
    ] = False,
    restart: Annotated[
        str,
        typer.Option(
            help="Command that starts an Apache broker as the master; else you are told to.", show_default=False
        ),
    ] = "",
    yes: Yes = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Make a slave the master, without a controller: the old master stops taking messages, then the new one begins.

    A takeover that was cut off goes on when the command is repeated.
    """
    run(_look(namesrv, name, to, refuses=not (dry_run or leave_behind)))
    if agreed(f"make the slave the master of {name}", yes=yes, dry_run=dry_run, name=name):
        run(_take_over(namesrv, name, to, wait, leave_behind, restart))


async def _look(namesrv: str, name: str, to: int | None, *, refuses: bool) -> None:
    """Say how it stands; UsageError if it `refuses` to leave messages behind."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.migration.handover import Handover, find
    from rocketlake.admin.migration.left_behind import check_left_behind

    async with Cluster(namesrv) as cluster:
        handover = Handover(await find(cluster, name, to), tell)
        lost = await handover.check()
        tell(f"old master  {_words(handover, is_old=True)}")
        tell(f"new master  {_words(handover, is_old=False)}; it lacks {await handover.lag()} bytes of the log")
        for each in lost:
            typer.secho(f"note: not copied: {each.what}; {each.effect}", fg="yellow", err=True)
        if refuses:
            check_left_behind(lost, handover.old)


def _words(handover: Handover, *, is_old: bool) -> str:
    peer = handover.old if is_old else handover.new
    kind = "RocketLake" if peer.is_ours else "Apache"
    return f"{peer.address} ({kind}, brokerId {peer.broker_id}, {peer.settings.get('brokerRole')})"


async def _take_over(namesrv: str, name: str, to: int | None, wait: float, leave_behind: bool, restart: str) -> None:
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.migration.handover import Handover, find
    from rocketlake.admin.migration.left_behind import check_left_behind

    async with Cluster(namesrv) as cluster:
        handover = Handover(await find(cluster, name, to), tell, restart=restart)
        lost = await handover.check()  # more may have come while the operator was asked
        if not leave_behind:
            check_left_behind(lost, handover.old)
        await handover.until_near(wait)
        pause = await handover.run(leaves=leave_behind)
        tell(f"nobody took messages for {pause:.2f} s")
        if not handover.old.is_ours:
            conf = handover.old.settings.get("brokerConfigPath", "its broker.conf")
            tell(f"{handover.old.address} has written its new role to {conf}: started with that it is a slave")
