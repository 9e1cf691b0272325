"""`rocketlake replicas hand-over | elect | move | remove`: another master, another address, a member less.

Owns        options, questions and output of these commands.
Must not know   how a controller is asked (cluster_replicas.py), how it decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, confirm, run
from rocketlake.cli.replicas_words import lives, losses, member_of, state_of

if TYPE_CHECKING:
    from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = ["COMMANDS"]

Group = Annotated[str, typer.Argument(help="Name of the group: brokerName of its brokers.", show_default=False)]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker, as `rocketlake replicas show` lists it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def hand_over(group: Group, to: BrokerId, yes: Yes = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Make another broker that is in step the master. Nothing is lost; sends wait for a moment."""
    from rocketlake.base.errors import UsageError

    found = _look(group, namesrv)
    if to == found.master:
        typer.echo(f"broker {to} is the master of {group} already: nothing to do")
        return
    if to not in found.in_sync:
        raise UsageError(
            f"broker {to} of {group} is not in step: {_said(found, to)}",
            hint="choose one that `rocketlake replicas show` lists as in step, or wait",
        )
    if not yes:
        confirm(f"make broker {to} the master of {group} instead of {found.master}? Sends wait for a moment.")
    _elect(found, to, namesrv)


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
        if not yes:
            instead = f"make broker {to} the master of {group} instead of broker {found.master}, which lives?"
            confirm(instead if over_living else f"choose a master of {group} all the same?")
    _elect(found, to, namesrv, unclean=force)


def move(
    group: Group,
    broker_id: BrokerId,
    address: Annotated[str, typer.Argument(help="Where it serves from now on, HOST:PORT.", show_default=False)],
    yes: Yes = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Let a broker come back at another address, with its log, when its old machine is gone."""
    from rocketlake.base.errors import UsageError
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    found = _look(group, namesrv)
    member = _member(found, broker_id)
    if lives(member):
        raise UsageError(f"broker {broker_id} of {group} lives at {member.address}", hint="stop it there first")
    if not yes:
        confirm(f"broker {broker_id} of {group} moves to {address}; does nothing run at {member.address} any more?")

    async def work() -> None:
        async with Cluster(namesrv) as cluster:
            await ClusterReplicas(cluster).move(found, member, address)

    run(work())
    typer.echo(f"broker {broker_id} of {group} is expected at {address}")


def remove(group: Group, broker_id: BrokerId, yes: Yes = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Forget a dead broker that does not come back. Its id is not given to another one."""
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

    found = _look(group, namesrv)
    _member(found, broker_id)
    if not yes:
        confirm(f"forget broker {broker_id} of {group} ({_said(found, broker_id)})?")

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


def _count_lacking(group: GroupView, to: int, namesrv: str) -> int | None:
    from rocketlake.cli.cluster import Cluster
    from rocketlake.cli.cluster_replicas import ClusterReplicas

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
}
"""By name."""
