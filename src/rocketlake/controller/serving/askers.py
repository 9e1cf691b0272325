"""Who may ask for what: the host rule of a controller.

Owns        the rule that a broker's requests come from the broker's host.
Must not know   what the requests change.

A broker's host is that of its registered address, or the one its heartbeats come from while it lives (a machine may
have several addresses). An administrator's host (docs/decisions/0004) may do what a broker may.
"""

from __future__ import annotations

from rocketlake.auth.admin_access import AdminAccess, check_admin_access
from rocketlake.controller.group import Group
from rocketlake.controller.watch.liveness import BrokerKey, Liveness, Pulse
from rocketlake.net.request import Request
from rocketlake.protocol.request_code import request_name

__all__ = ["Askers"]


class Askers:
    """Checks the hosts of askers."""

    def __init__(self, liveness: Liveness, access: AdminAccess) -> None:
        self._liveness = liveness
        self._access = access

    def check_broker(self, request: Request, name: str, group: Group, broker_id: int) -> None:
        """Return if the request may come from this member. Raises AccessRefused."""
        if not self.is_broker(request, name, group, broker_id):
            self.check_admin(request, f"{request_name(request.code)} as broker {name}/{broker_id}")

    def check_newcomer(self, request: Request, name: str, group: Group, broker_id: int) -> None:
        """The same, but a member that does not live may come back from another host."""
        if self._liveness.pulse(BrokerKey(name, broker_id)) is Pulse.ALIVE:
            self.check_broker(request, name, group, broker_id)

    def check_admin(self, request: Request, action: str) -> None:
        """Return if the asker's host is an administrator's. Raises AccessRefused."""
        check_admin_access(self._access, request.asker.remote[0], action)

    def is_broker(self, request: Request, name: str, group: Group, broker_id: int) -> bool:
        """True if the asker's host is this member's."""
        host = request.asker.remote[0]
        member = group.members.get(broker_id)
        if member is not None and member.address.rpartition(":")[0].strip("[]") == host:
            return True
        last = self._liveness.last(BrokerKey(name, broker_id))
        alive = self._liveness.pulse(BrokerKey(name, broker_id)) is Pulse.ALIVE
        return alive and last is not None and last.link is not None and last.link.remote[0] == host
