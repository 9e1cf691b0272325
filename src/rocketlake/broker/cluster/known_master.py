"""The master of this broker's name, as this broker knows it now.

Owns        its addresses, who hears of a change.
Must not know   who tells them (registration.py, a controller, the master itself), what is asked of the master.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.callbacks import call_each
from rocketlake.base.logs import get_logger
from rocketlake.broker.cluster.role import Role

__all__ = ["KnownMaster"]

_log = get_logger(__name__)


class KnownMaster:
    """Where a slave finds its master."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.address = ""
        """`host:port` of its listener; "" while none is known."""
        self.ha_address = ""
        """`host:port` where it hands out its log; "" while that is not known."""
        self._decided = ""
        self.is_there = False
        """True while it answers this slave (replicas/copies.py asks it all the time)."""
        self.on_change: list[Callable[[], None]] = []
        """Called when an address has changed."""

    def decide(self, address: str, ha_address: str) -> None:
        """The controller has chosen this master: others who name another one are late from now on."""
        self._decided = ""
        self.told(address, ha_address)
        self._decided = address

    def told(self, address: str, ha_address: str) -> None:
        """Note the master's addresses; "" changes nothing.

        Ignored while this broker is the master: the message may be from before its election.
        """
        if self._decided not in ("", address):
            return
        if self.role.is_master or address == "{}:{}".format(*self.role.address()):
            return
        before = self.address, self.ha_address
        if address and address != self.address:
            self.address, self.ha_address = address, ""  # the old place of the log is no place of the new master
            self.is_there = False
        self.ha_address = ha_address or self.ha_address
        if before != (self.address, self.ha_address):
            _log.info("the master of %s is %s, its log %s", self.role.broker_name, self.address, self.ha_address)
            call_each(self.on_change)

    def forget(self) -> None:
        """This broker is the master now, or nobody is."""
        if self.address or self.ha_address:
            self.address = self.ha_address = ""
            self.is_there = False
            call_each(self.on_change)
