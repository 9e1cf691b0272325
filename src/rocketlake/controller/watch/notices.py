"""Telling the members of a group who their master is.

Owns        the notice, how often and to whom it is repeated.
Must not know   how a master is chosen.

A notice is one-way and may be lost: brokers ask for their group from time to time as well. It only saves them that
time. So it is repeated until a broker's heartbeat shows the epoch, a few times. A controller that did not make the
change waits a moment: the one that did is quicker.
"""

from __future__ import annotations

from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.controller.group import Group
from rocketlake.controller.watch.liveness import BrokerKey, Liveness
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import SyncStateSet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import RoleChangedHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Notices"]

_log = get_logger(__name__)

_PAUSES: Final = (0.2, 0.4, 0.8, 1.6, 3.2)
_SEND_MS: Final = 1000


class Notices(Service):
    """Sends notices about new masters."""

    def __init__(self, client: NetClient, liveness: Liveness, clock: Clock) -> None:
        super().__init__("notices", clock)
        self._client = client
        self._liveness = liveness
        self._epochs: dict[str, int] = {}
        """The epoch that is being told, by broker name."""

    def changed(self, name: str, before: Group, after: Group, ours: bool) -> None:
        """The state of a group changed: if its master did, tell its members."""
        if after.master is None or after.master_epoch <= before.master_epoch or not self.is_running:
            return
        if not before.members:
            return  # nothing changed: this controller has just begun to know the group
        if self._epochs.get(name, -1) >= after.master_epoch:
            return
        self._epochs[name] = after.master_epoch
        self.spawn(f"tell {name} epoch {after.master_epoch}", self._tell(name, after, ours))

    async def _tell(self, name: str, group: Group, ours: bool) -> None:
        try:
            if ours:
                await self._send_all(name, group)
            for pause in _PAUSES:
                await self._clock.sleep(pause)
                if self._epochs.get(name) != group.master_epoch:
                    return  # there is a newer one
                if not await self._send_all(name, group):
                    return
        finally:
            if self._epochs.get(name) == group.master_epoch:
                del self._epochs[name]

    async def _send_all(self, name: str, group: Group) -> int:
        """Tell the members that may not know it yet; the new master first. Returns how many those are."""
        late = [each for each in group.members if not self._knows(name, each, group.master_epoch)]
        for broker_id in sorted(late, key=lambda each: (each != group.master, each)):
            self.spawn(f"notice to {name}/{broker_id}", self._send(group, broker_id))
        return len(late)

    def _knows(self, name: str, broker_id: int, epoch: int) -> bool:
        broker = self._liveness.last(BrokerKey(name, broker_id))
        if broker is None:
            return False
        heard = broker.beat.heard
        return max(heard.epoch, heard.known_epoch) >= epoch

    async def _send(self, group: Group, broker_id: int) -> None:
        address = group.members[broker_id].address
        try:
            await self._client.invoke_oneway(address, _notice(group), _SEND_MS)
        except RocketLakeError as error:
            _log.debug("the notice of epoch %d does not reach %s: %s", group.master_epoch, address, error)


def _notice(group: Group) -> Command:
    assert group.master is not None
    header = RoleChangedHeader(
        master_address=group.members[group.master].address,
        master_epoch=group.master_epoch,
        sync_state_set_epoch=group.in_sync_epoch,
        master_broker_id=group.master,
    )
    body = SyncStateSet(members=group.in_sync, epoch=group.in_sync_epoch).encode()
    return Command.request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header, body)
