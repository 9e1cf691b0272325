"""A controller: its parts, started and stopped in order.

Owns        the wiring, heartbeats on their way to the table of those that live.
Must not know   the server that serves it, the rules of a decision.

Controllers have no leader among them and keep nothing: all that counts is in the register. So each of them serves each
request, and the loss of one costs its brokers a new connection.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.action import AccessRefused
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service, stop_each
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import Group
from rocketlake.controller.questions import Heard
from rocketlake.controller.registers.register import Register
from rocketlake.controller.serving.askers import Askers
from rocketlake.controller.serving.dispatch_table import rows
from rocketlake.controller.serving.requests import Requests, known_master
from rocketlake.controller.serving.views import Views
from rocketlake.controller.watch.elections import Elections
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness
from rocketlake.controller.watch.notices import Notices
from rocketlake.controller.watch.probes import Probes
from rocketlake.controller.watch.timing import Profile
from rocketlake.model.route import MASTER_ID
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Row
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.signing import Sign
from rocketlake.net.network import Network
from rocketlake.net.request import Asker, Request
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader

__all__ = ["Controller"]

_log = get_logger(__name__)


class Controller(Service):
    """One controller on a register."""

    def __init__(
        self,
        register: Register,
        *,
        address: Callable[[], str],
        clock: Clock,
        network: Network,
        profile: Profile = Profile.FAST,
        gate: AccessGate,
        sign: Sign,
        unclean: Callable[[], bool] = lambda: False,
        name: str = "",
    ) -> None:
        """`address`: where brokers reach it; `unclean`: see Elections; `name`: see Decider."""
        super().__init__("controller", clock)
        self._client = NetClient(clock=clock, network=network, sign=sign)
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)
        self.liveness = Liveness(clock, profile.limit_seconds)
        self.decider = Decider(register, clock, name)
        self._probes = Probes(self._client, network, clock)
        self._askers = Askers(self.liveness, gate, self._probes.knock)
        self._elections = Elections(self.decider, self.liveness, self._probes, clock, unclean)
        self._notices = Notices(self._client, self.liveness, clock)
        self._requests = Requests(self.decider, self.liveness, self._askers, clock, unclean)
        self._views = Views(self.decider, self.liveness, register, address)
        self.decider.on_changed.append(self._notices.changed)
        self.decider.on_read.append(self._forget_removed)
        self.adopt(self._client, self.decider, self._probes, self._notices, self._elections, self._requests)

    def rows(self) -> list[Row]:
        """The requests that it serves, heartbeats and settings apart."""
        return rows(self._requests, self._views)

    async def start(self) -> None:
        """Begin. The register need not be up yet: health is red until it is."""
        await super().start()
        try:
            for part in self.parts:
                await part.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer what is held, end what is under way."""
        await stop_each(*(part.stop for part in reversed(self.parts)))
        await super().stop()

    def heartbeat(self, request: Request, header: BrokerHeartbeatHeader) -> None:
        """BROKER_HEARTBEAT: a registered broker lives. One without an id is no broker of a controller."""
        if header.broker_id is None:
            return
        name, broker_id = header.broker_name, header.broker_id
        group = self.decider.groups.get(name)
        if group is None or broker_id not in group.members:
            return  # not registered, or a moment ago at another controller: its next heartbeat counts
        if header.life is not None and header.life != group.members[broker_id].life:
            return  # another process has registered under this id since, or this one a moment ago
        try:
            self._askers.check_broker(request, name, group, broker_id)
        except AccessRefused as refused:
            self._warnings.warn(f"{name}/{broker_id}", "a heartbeat is not believed: %s", refused)
            return
        self.liveness.hear(BrokerKey(name, broker_id), request.asker, _beat(header))

    def has_place(self, request: Request, name: str, broker_id: int, address: str) -> bool:
        """True if this member of the group is recorded at this address, and the request comes from there.

        `broker_id`: as name servers know it, so that of the recorded master is 0.
        """
        group = self.decider.groups.get(name)
        if group is None:
            return False
        member_id = group.master if broker_id == MASTER_ID else broker_id
        member = None if member_id is None else group.members.get(member_id)
        if member_id is None or member is None or member.address != address:
            return False
        return self._askers.is_broker(request, name, group, member_id)

    def link_lost(self, link: Asker) -> None:
        """A connection to the server has ended."""
        self.liveness.link_lost(link)

    def _forget_removed(self) -> None:
        groups: dict[str, Group] = self.decider.groups
        self.liveness.forget_others({BrokerKey(name, each) for name, group in groups.items() for each in group.members})


def _beat(header: BrokerHeartbeatHeader) -> Beat:
    heard = Heard(
        epoch=-1 if header.epoch is None else header.epoch,
        end_offset=-1 if header.max_offset is None else header.max_offset,
        priority=2**31 - 1 if header.election_priority is None else header.election_priority,
        boot_id=header.boot_id or "",
        known_epoch=-1 if header.known_epoch is None else header.known_epoch,
        known_master=known_master(header.known_master_epoch, header.known_master),
        cannot_lead=bool(header.cannot_lead),
    )
    return Beat(
        heard,
        limit_ms=header.heartbeat_timeout_mills,
        confirm_offset=-1 if header.confirm_offset is None else header.confirm_offset,
        ha_silent_ms=header.ha_silent_millis,
        ack_stalled_ms=header.ack_stalled_millis or 0,
    )
