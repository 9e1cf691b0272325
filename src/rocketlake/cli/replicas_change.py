"""`rocketlake replicas hand-over | elect | move | remove | rebuild`: another master, address, register; a member less.

Owns        options, questions and output of these commands.
Must not know   how a controller is asked, what is refused (admin/replicas).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.replicas_words import losses
from rocketlake.cli.table import tell

if TYPE_CHECKING:
    from rocketlake.admin import Admin, NewMaster

__all__ = ["COMMANDS"]

T = TypeVar("T")

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker, as `rocketlake replicas show` lists it.")]


def hand_over(
    group: Group, to: BrokerId, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Make another broker that is in step the master. Nothing is lost; sends wait for a moment."""
    found = _ask(namesrv, lambda admin: admin.check_hand_over(group, to))
    if to == found.master:
        tell(f"broker {to} is the master of {group} already: nothing to do", group=group, master=to)
        return
    what = f"make broker {to} the master of {group} instead of {found.master}"
    if agreed(what, yes=yes, dry_run=dry_run, more="Sends wait for a moment.", group=group, master=to):
        _say(_ask(namesrv, lambda admin: admin.hand_over(group, to)))


def elect(
    group: Group,
    to: Annotated[int | None, typer.Option("--to", help="This broker or none.", show_default=False)] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a broker that may lack acknowledged messages: they are lost then.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Choose a master for a group that has none. With --force it says what may be lost, and asks."""
    found = _ask(namesrv, lambda admin: admin.check_election(group, to))
    master = found.member(found.master)
    over_living = master is not None and master.is_alive
    if force:
        lacking = None
        if over_living and to is not None:
            lacking = _ask(namesrv, lambda admin: admin.count_lacking(group, to))
        for line in losses(found, to, lacking):
            typer.secho(f"warning: {line}", fg="yellow", err=True)
    what = f"choose a master of {group} all the same"
    if over_living:
        what = f"make broker {to} the master of {group} instead of broker {found.master}, which lives"
    if agreed(what, yes=yes or not force, dry_run=dry_run, group=group):
        _say(_ask(namesrv, lambda admin: admin.elect_master(group, to, force=force)))


def move(
    group: Group,
    broker_id: BrokerId,
    address: Annotated[str, typer.Argument(help="Where it serves from now on, HOST:PORT.", show_default=False)],
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Let a broker come back at another address, with its log, when its old machine is gone."""
    member = _ask(namesrv, lambda admin: admin.check_move(group, broker_id)).member(broker_id)
    more = f"Does nothing run at {member.address if member else 'its old address'} any more?"
    what = f"have broker {broker_id} of {group} move to {address}"
    if agreed(what, yes=yes, dry_run=dry_run, more=more, group=group, broker=broker_id):
        _ask(namesrv, lambda admin: admin.move_replica(group, broker_id, address))
        tell(f"broker {broker_id} of {group} is expected at {address}", group=group, broker=broker_id, address=address)


def remove(
    group: Group, broker_id: BrokerId, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Forget a dead broker that does not come back. Its id is not given to another one."""
    member = _ask(namesrv, lambda admin: admin.check_removal(group, broker_id)).member(broker_id)
    what = f"forget broker {broker_id} of {group} ({member.state if member else 'unknown'})"
    if agreed(what, yes=yes, dry_run=dry_run, group=group, broker=broker_id):
        _ask(namesrv, lambda admin: admin.remove_replica(group, broker_id))
        tell(f"broker {broker_id} of {group} is forgotten", group=group, broker=broker_id)


def rebuild(
    store: Annotated[Path, typer.Argument(help="storePathRootDir of a stopped broker.", show_default=False)],
    furthest: Annotated[
        str | None,
        typer.Option(
            "--furthest",
            metavar="EPOCH:END",
            help="Where the furthest log of the group ends, of all its stores.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="storePathCommitLog, if it was set.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how far the log goes, and what would be put aside.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Make the store of a stopped broker ready for a new register: that of the controllers is lost for good."""
    from rocketlake.base.errors import UsageError
    from rocketlake.broker.membership.identity import FILE_NAME, TEMP_NAME
    from rocketlake.broker.membership.lives import FILE_NAME as LIVES
    from rocketlake.broker.replicas.furthest_log import position_from_text
    from rocketlake.broker.replicas.rebuild import Rebuild

    awaited = None if furthest is None else position_from_text(furthest)
    with closing(Rebuild(store, (FILE_NAME, TEMP_NAME, LIVES), commit_log=log)) as work:
        tell(f"the log of {store} goes to {work.position} (epoch, end in bytes)", position=str(work.position))
        if work.damage:
            typer.secho(f"warning: {work.damage}: this disk may have lost a part of it", fg="yellow", err=True)
        if awaited is None:
            if not dry_run:
                raise UsageError(
                    "how far does the furthest log of this group go? The first master must have it: what it lacks,"
                    " all others lose",
                    where="--furthest is missing",
                    hint="run this with --dry-run for each store of the group, then for each with the highest epoch,"
                    f" of these the highest end: --furthest {work.position}, if no other one is higher",
                )
            tell("look at each store of the group; the highest epoch, of these the highest end, goes furthest")
            return
        work.check(awaited)
        for name, kept in work.aside():
            tell(f"{name} -> {kept}")
        if not dry_run:
            more = f"Have all controllers a new register, and goes no log of the group further than {awaited}?"
            agreed(f"make the store {store} ready for it", yes=yes, more=more)
            work.run(awaited)
        tell(_order(awaited == work.position))


def _order(is_furthest: bool) -> str:
    if is_furthest:
        return "no log of the group goes further: start this broker first, it becomes the master"
    return "start the broker with the furthest log first; this one waits for it, and takes from it what it lacks"


def _say(now: NewMaster) -> None:
    where = f"broker {now.broker_id} at {now.address}"
    text = f"the master of {now.group} is {where}, in epoch {now.epoch}"
    tell(text, group=now.group, master=now.broker_id, epoch=now.epoch)


def _ask(namesrv: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    from rocketlake.admin import Admin

    async def work() -> T:
        async with Admin(namesrv=namesrv) as admin:
            return await question(admin)

    return run(work())


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "hand-over": hand_over,
    "elect": elect,
    "move": move,
    "remove": remove,
    "rebuild": rebuild,
}
"""By name."""
