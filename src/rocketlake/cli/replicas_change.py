"""`rocketlake replicas hand-over | elect | move | remove | rebuild`: another master, address, register; a member less.

Owns        options, questions and output of these commands.
Must not know   how a controller is asked (admin/replicas.py), how it decides.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.replicas_words import lives, losses, member_of, removal_refusal, state_of
from rocketlake.cli.table import tell

if TYPE_CHECKING:
    from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = ["COMMANDS"]

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker, as `rocketlake replicas show` lists it.")]


def hand_over(
    group: Group, to: BrokerId, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Make another broker that is in step the master. Nothing is lost; sends wait for a moment."""
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    if to == found.master:
        tell(f"broker {to} is the master of {group} already: nothing to do", group=group, master=to)
        return
    if to not in found.in_sync:
        raise UsageError(
            f"broker {to} of {group} is not in step: {_said(found, to)}",
            hint="choose one that `rocketlake replicas show` lists as in step, or wait",
        )
    what = f"make broker {to} the master of {group} instead of {found.master}"
    if agreed(what, yes=yes, dry_run=dry_run, more="Sends wait for a moment.", group=group, master=to):
        _elect(found, to, namesrv)


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
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    if to is not None:
        _member(found, to)
    master = member_of(found, found.master)
    over_living = master is not None and lives(master)
    if over_living and to in (None, found.master):
        raise UsageError(
            f"{group} has a master that lives, broker {found.master}",
            hint=f"name another one: `rocketlake replicas hand-over {group} ID`, or with --to what must be forced",
        )
    if force:
        messages = _count_lacking(found, to, namesrv) if over_living and to is not None else None
        for line in losses(found, to, messages):
            typer.secho(f"warning: {line}", fg="yellow", err=True)
    what = f"choose a master of {group} all the same"
    if over_living:
        what = f"make broker {to} the master of {group} instead of broker {found.master}, which lives"
    if agreed(what, yes=yes or not force, dry_run=dry_run, group=group):
        _elect(found, to, namesrv, unclean=force)


def move(
    group: Group,
    broker_id: BrokerId,
    address: Annotated[str, typer.Argument(help="Where it serves from now on, HOST:PORT.", show_default=False)],
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Let a broker come back at another address, with its log, when its old machine is gone."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    member = _member(found, broker_id)
    if lives(member):
        raise UsageError(f"broker {broker_id} of {group} lives at {member.address}", hint="stop it there first")
    more = f"Does nothing run at {member.address} any more?"
    what = f"have broker {broker_id} of {group} move to {address}"
    if not agreed(what, yes=yes, dry_run=dry_run, more=more, group=group, broker=broker_id):
        return

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await ClusterReplicas(cluster).move(found, member, address)

    run(work())
    tell(f"broker {broker_id} of {group} is expected at {address}", group=group, broker=broker_id, address=address)


def remove(
    group: Group, broker_id: BrokerId, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Forget a dead broker that does not come back. Its id is not given to another one."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    member = _member(found, broker_id)
    if refusal := removal_refusal(found, broker_id):
        what, _, cure = refusal.partition(". Cure: ")
        raise UsageError(f"broker {broker_id} of {group} cannot be removed: {what}", where=member.address, hint=cure)
    what = f"forget broker {broker_id} of {group} ({_said(found, broker_id)})"
    if not agreed(what, yes=yes, dry_run=dry_run, group=group, broker=broker_id):
        return

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await ClusterReplicas(cluster).remove(found, broker_id)

    run(work())
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


def _look(group: str, namesrv: str) -> GroupView:
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas

    async def work() -> GroupView:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).group(group)

    return run(work())


def _elect(group: GroupView, to: int | None, namesrv: str, *, unclean: bool = False) -> None:
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas
    from rocketlake.protocol.headers.controller import ElectMasterReplyHeader

    async def work() -> ElectMasterReplyHeader:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).elect(group, to, unclean=unclean)

    now = run(work())
    where = f"broker {now.master_broker_id} at {now.master_address}"
    text = f"the master of {group.broker_name} is {where}, in epoch {now.master_epoch}"
    tell(text, group=group.broker_name, master=now.master_broker_id, epoch=now.master_epoch)


def _count_lacking(group: GroupView, to: int, namesrv: str) -> int | None:
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.replicas import ClusterReplicas

    async def work() -> int | None:
        async with Cluster(namesrv) as cluster:
            return await ClusterReplicas(cluster).lacking(group, to)

    return run(work())


def _member(group: GroupView, broker_id: int) -> MemberView:
    from rocketlake.base.errors import UsageError

    member = member_of(group, broker_id)
    if member is None:
        name = group.broker_name
        raise UsageError(f"{name} has no broker {broker_id}", hint=f"`rocketlake replicas show {name}` lists them")
    return member


def _said(group: GroupView, broker_id: int) -> str:
    member = member_of(group, broker_id)
    return state_of(group, member) if member is not None else "the group has no such broker"


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "hand-over": hand_over,
    "elect": elect,
    "move": move,
    "remove": remove,
    "rebuild": rebuild,
}
"""By name."""
