"""What others say of the group without being asked: a controller of roles, a member of where it hands out its log.

Owns        the two requests.
Must not know   what follows from a role (member.py), how a log is followed.

Both are only hints, as anyone could send them: this broker asks its controller before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.cluster.role import Role
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.headers.controller import RoleChangedHeader
from rocketlake.protocol.headers.replicas import ExchangeHaHeader

__all__ = ["Notices"]


class Notices:
    """Serves them."""

    def __init__(
        self, role: Role, master: KnownMaster, noticed: Callable[[int], object], look_up: Callable[[], object]
    ) -> None:
        """`noticed`: there may be a newer master epoch. `look_up`: have the controller asked."""
        self.announced = "", ""
        """The addresses of the master that has announced itself last: its listener, its HA address."""
        self._role = role
        self._master = master
        self._noticed = noticed
        self._look_up = look_up

    def role_changed(self, request: Request) -> Reply:
        """NOTIFY_BROKER_ROLE_CHANGED."""
        self._noticed(request.header(RoleChangedHeader).master_epoch or 0)
        return Reply()

    def exchange_ha(self, request: Request) -> Reply:
        """EXCHANGE_BROKER_HA_INFO: the master's addresses, or the question for them."""
        header = request.header(ExchangeHaHeader)
        if header.master_ha_address:
            self.announced = header.master_address or "", header.master_ha_address
            self._master.told(*self.announced)
            if header.master_address != self._master.address:
                self._look_up()  # a new master is quicker than the controller's notice
            return Reply()
        if not self._role.is_master:
            return Reply(header=ExchangeHaHeader())
        own = self._role.identity()
        return Reply(header=ExchangeHaHeader(master_ha_address=own.ha_address, master_address=own.address))
