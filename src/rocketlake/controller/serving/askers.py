"""Who may ask for what: the host rule of a controller.

Owns        the rule that a broker's requests come from the broker's host.
Must not know   what the requests change.

A broker's host is that of its registered address, or the one it registered from (a machine may have several
addresses). An administrator's host (docs/decisions/0004) may do what a broker may. A member that holds acknowledged
records moves to another host if it tells the word under which it was registered last, which only its store knows; or
when nothing listens at its old address. Without either it may be a stranger: the member may be cut off from this
controller, and still be the master. One whose store came along ends the epoch of the older process, as each start does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set

from rocketlake.auth.action import AccessRefused
from rocketlake.controller.group import Group
from rocketlake.controller.watch.liveness import BrokerKey, Liveness, Pulse
from rocketlake.controller.watch.probes import Door
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Request
from rocketlake.protocol.request_code import request_name

__all__ = ["Askers", "host_of"]


class Askers:
    """Checks the hosts of askers."""

    def __init__(self, liveness: Liveness, gate: AccessGate, knock: Callable[[str], Awaitable[Door]]) -> None:
        """`knock` tells what becomes of a new connection to an address."""
        self._liveness = liveness
        self._gate = gate
        self._knock = knock

    def check_broker(self, request: Request, name: str, group: Group, broker_id: int) -> None:
        """Return if the request may come from this member. Raises AccessRefused."""
        if not self.is_broker(request, name, group, broker_id):
            self.check_admin(request, f"{request_name(request.code)} as broker {name}/{broker_id}")

    async def check_registration(
        self, request: Request, name: str, group: Group, broker_id: int, words: Set[str]
    ) -> None:
        """The same, but a member may come back from another host.

        It must not live; and if it holds records, `words`, under which the asker says that its store was registered,
        must have that of the record, or nothing may listen at its address.
        """
        lives = self._liveness.pulse(BrokerKey(name, broker_id)) is Pulse.ALIVE
        if not lives and (not group.holds_records(broker_id) or _is_known(group, broker_id, words)):
            return
        try:
            self.check_broker(request, name, group, broker_id)
        except AccessRefused as refused:
            if lives:
                raise
            address = group.members[broker_id].address
            if await self._knock(address) is not Door.REFUSED:
                raise AccessRefused(
                    f"broker {name}/{broker_id} may still live at {address}: {refused.what}",
                    hint=f"stop it there; if that machine is gone, run `rocketlake replicas move {name} {broker_id} "
                    "HOST:PORT`, with its new address, on the machine of a controller",
                ) from None

    def check_admin(self, request: Request, action: str) -> None:
        """Return if the asker's host is an administrator's. Raises AccessRefused."""
        self._gate.check_host(request.asker.remote[0], action)

    def is_broker(self, request: Request, name: str, group: Group, broker_id: int) -> bool:
        """True if the asker's host is this member's."""
        member = group.members.get(broker_id)
        return member is not None and request.asker.remote[0] in (host_of(member.address), member.host)


def _is_known(group: Group, broker_id: int, words: Set[str]) -> bool:
    member = group.members.get(broker_id)
    return member is not None and member.life != "" and member.life in words


def host_of(address: str) -> str:
    """The host of `host:port`; an IPv6 address without its brackets."""
    return address.rpartition(":")[0].strip("[]")
