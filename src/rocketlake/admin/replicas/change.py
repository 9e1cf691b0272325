"""Another master for a group, another address for a broker, a broker less: what is refused, and the change.

Owns        the rules that a careless request would break; a controller has its own besides.
Must not know   questions to the user, how a controller is asked (asked.py).
"""

from __future__ import annotations

from rocketlake.admin.replicas.asked import ClusterReplicas
from rocketlake.admin.replicas.state import group_of, known_member, lives, member_of, removal_refusal
from rocketlake.admin.results import NewMaster, ReplicaGroup
from rocketlake.base.errors import UsageError
from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = ["ReplicaChanges"]


class ReplicaChanges:
    """Each `check_...` raises what the change would raise, and returns the group. All raise LinkError, RemoteError."""

    def __init__(self, replicas: ClusterReplicas) -> None:
        self._replicas = replicas

    async def check_hand_over(self, group: str, to: int) -> ReplicaGroup:
        """UsageError if the broker is not in step."""
        return group_of(await self._for_hand_over(group, to))

    async def hand_over(self, group: str, to: int) -> NewMaster:
        """Make a broker that is in step the master. Nothing is lost."""
        return await self._elect(await self._for_hand_over(group, to), to)

    async def check_election(self, group: str, to: int | None) -> ReplicaGroup:
        """UsageError if there is no such broker, or the master lives and no other one is named."""
        return group_of(await self._for_election(group, to))

    async def elect(self, group: str, to: int | None, *, force: bool) -> NewMaster:
        """Choose a master; `force`: also one that may lack acknowledged messages, which are lost then."""
        return await self._elect(await self._for_election(group, to), to, force=force)

    async def check_move(self, group: str, broker_id: int) -> ReplicaGroup:
        """UsageError if the broker lives at its old address."""
        return group_of((await self._for_move(group, broker_id))[0])

    async def move(self, group: str, broker_id: int, address: str) -> None:
        """Expect a broker at another address, with its log."""
        await self._replicas.move(*await self._for_move(group, broker_id), address)

    async def check_removal(self, group: str, broker_id: int) -> ReplicaGroup:
        """UsageError with the controller's reason."""
        return group_of(await self._for_removal(group, broker_id))

    async def remove(self, group: str, broker_id: int) -> None:
        """Forget a broker that does not live."""
        await self._replicas.remove(await self._for_removal(group, broker_id), broker_id)

    async def _for_hand_over(self, group: str, to: int) -> GroupView:
        found = await self._replicas.group(group)
        if to != found.master and to not in found.in_sync:
            state = group_of(found).member(to)
            raise UsageError(
                f"broker {to} of {group} is not in step: {state.state if state else 'the group has no such broker'}",
                hint="choose one that `rocketlake replicas show` lists as in step, or wait",
            )
        return found

    async def _for_election(self, group: str, to: int | None) -> GroupView:
        found = await self._replicas.group(group)
        if to is not None:
            known_member(found, to)
        master = member_of(found, found.master)
        if master is not None and lives(master) and to in (None, found.master):
            raise UsageError(
                f"{group} has a master that lives, broker {found.master}",
                hint=f"name another one: `rocketlake replicas hand-over {group} ID`, or with --to what must be forced",
            )
        return found

    async def _for_move(self, group: str, broker_id: int) -> tuple[GroupView, MemberView]:
        found = await self._replicas.group(group)
        member = known_member(found, broker_id)
        if lives(member):
            raise UsageError(f"broker {broker_id} of {group} lives at {member.address}", hint="stop it there first")
        return found, member

    async def _for_removal(self, group: str, broker_id: int) -> GroupView:
        found = await self._replicas.group(group)
        member = known_member(found, broker_id)
        if refusal := removal_refusal(found, broker_id):
            what, _, cure = refusal.partition(". Cure: ")
            raise UsageError(
                f"broker {broker_id} of {group} cannot be removed: {what}", where=member.address, hint=cure
            )
        return found

    async def _elect(self, group: GroupView, to: int | None, *, force: bool = False) -> NewMaster:
        now = await self._replicas.elect(group, to, unclean=force)
        address, epoch = now.master_address or "", now.master_epoch or 0
        return NewMaster(group.broker_name, now.master_broker_id or 0, address, epoch)
