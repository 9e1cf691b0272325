"""The steps by which another broker of a name becomes its master, without a controller.

Owns        who of a name is the old master and who the new one; the order of the steps, the way back when one fails.
Must not know   options, output; what a broker checks itself when its role changes (broker/replicas/takeover.py).

The old master becomes a slave first, in its settings on disk, too. Only then the new one may take messages. Between the
two nobody does: that is the pause. Each step can be read from the brokers themselves, so a takeover that was cut off is
taken up where it stopped, by the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.migration.left_behind import LeftBehind, check_left_behind, left_behind
from rocketlake.admin.migration.peer import Peer
from rocketlake.admin.migration.slave_conf import check_master, free_id
from rocketlake.admin.migration.to_apache import ToApache
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Handover", "find"]

_log = get_logger(__name__)

_NEAR_BYTES = 1 << 20
"""A slave that lacks less has it within a moment."""
_LOOK_SECONDS = 0.25
_PATIENCE_SECONDS = 15.0
_RETRIES = "timerEnableRetryUntilSuccess"
"""An Apache broker in the role of a slave goes on with its timer wheel. Without this setting it gives up what it cannot
store three times: that would be lost if it became the master again."""


class _NotTold(LinkError):
    """The new broker does not say whether it is the master."""


class _UnderWay(UsageError):
    """Somebody else changes the roles: what this command finds is not of its own making."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The two brokers of a takeover, by what they said of themselves."""

    old: Peer
    new: Peer
    spare_id: int
    """For the old master: no broker of the name has it."""
    rivals: tuple[Peer, ...] = ()
    """The other brokers of the name: another command may make one of them the master."""


async def find(cluster: Cluster, name: str, to: int | None) -> Sides:
    """The master of a name, and the slave that is to take over. UsageError if that is not clear."""
    members = await cluster.members(name)
    where = cluster.where
    if not members:
        raise UsageError(
            f"no broker has the name {name!r}", where=where, hint="`rocketlake follow` starts a slave of it"
        )
    peers = {broker_id: Peer(cluster.net, address) for broker_id, address in sorted(members.items())}
    for peer in peers.values():
        await peer.look()
    slaves = [broker_id for broker_id, peer in peers.items() if broker_id and peer.is_slave]
    if to is None:
        ours = [broker_id for broker_id in slaves if peers[broker_id].is_ours]
        if not ours and 0 in peers and peers[0].is_ours:
            ours = [0]  # it has taken over already
        if len(ours) != 1:
            raise UsageError(
                f"{name} has {len(ours)} slaves that are RocketLake brokers",
                where=where,
                hint="say with --to which broker is to be the master; `rocketlake follow` starts one",
            )
        to = ours[0]
    if to not in peers:
        known = ", ".join(map(str, peers))
        raise UsageError(f"{name} has no broker {to}", where=where, hint=f"choose one of these: {known}")
    others = [peer for broker_id, peer in peers.items() if broker_id != to]
    if not others:
        raise UsageError(
            f"broker {to} is the only one of {name}: nobody hands over",
            where=where,
            hint="start the old master again, with the broker.conf that it has written: it is a slave then",
        )
    masters = [peer for peer in others if not peer.is_slave]
    old = masters[0] if masters else await _stopped_master(others, peers[to])
    rivals = tuple(peer for peer in others if peer is not old)
    return Sides(old, peers[to], free_id({*peers, 0}), rivals)


async def _stopped_master(others: Sequence[Peer], new: Peer) -> Peer:
    """Of slaves, the one that a takeover has made one before it was cut off.

    It has the longest log; of several, it is the one that the new broker follows still. Its tables are the newest.
    """
    followed = (await new.figures()).get("followedMaster", "")
    ends = [(await peer.log_end(), peer.address == followed) for peer in others]
    return others[ends.index(max(ends))]


class Handover:
    """One takeover. Raises RocketLakeError when it ends before the new broker is the master."""

    def __init__(
        self, sides: Sides, say: Callable[[str], object], clock: Clock | None = None, *, restart: str = ""
    ) -> None:
        """`say` gets a line for each step. `restart`: see ToApache."""
        self.old, self.new = sides.old, sides.new
        self._spare_id = sides.spare_id
        self._rivals = sides.rivals
        self._say = say
        self._clock = clock or SystemClock()
        self._back = ToApache(self.old, self.new, say, self._clock, restart)

    # -- before anything changes ---------------------------------------------------------------------------------------

    async def check(self) -> list[LeftBehind]:
        """What does not come along. UsageError if these two cannot change places."""
        for peer in (self.old, self.new):
            if peer.settings.get("enableControllerMode") == "true":
                raise UsageError(
                    f"{peer.address} is under a controller, which decides who is the master",
                    hint=f"`rocketlake replicas hand-over {peer.broker_name} {self.new.broker_id}`",
                )
        if not self.old.is_slave:
            check_master(self.old)
        if not self.new.is_ours:
            return await self._back.check()
        return [] if self.old.is_ours else await left_behind(self.old, self.new)

    async def lag(self) -> int:
        """Bytes of the old master's log that the new one lacks now."""
        return max(0, await self.old.log_end() - await self.new.log_end())

    async def until_near(self, seconds: float) -> None:
        """Until the slave is in step. UsageError if it takes longer."""
        until = self._clock.monotonic() + seconds
        while (lag := await self.lag()) > _NEAR_BYTES:
            if self._clock.monotonic() > until:
                raise UsageError(
                    f"{self.new.address} still lacks {lag} bytes of the log",
                    hint="wait until it is in step, or --wait longer",
                )
            self._say(f"{self.new.address} lacks {lag} bytes")
            await self._clock.sleep(_LOOK_SECONDS)

    # -- the change ----------------------------------------------------------------------------------------------------

    async def run(self, *, leaves: bool = False) -> float:
        """Make the new broker the master; returns the seconds in which nobody took messages.

        `leaves`: also if messages wait in the old master that the new one does not deliver. They are looked for behind
        the stop, too: only then none comes any more.
        """
        if not self.new.is_slave:
            self._say(f"{self.new.address} is the master of {self.new.broker_name} already")
            return 0.0
        if not self.new.is_ours:
            await self._back.until_copied()
        began = self._clock.monotonic()
        before = None if self.old.is_slave else dict(self.old.settings)
        try:
            if before is not None:
                await self._step_down(self.old, self._spare_id)
                self._say(f"{self.old.address} takes no messages any more")
                if not (leaves or self.old.is_ours):
                    check_left_behind(await left_behind(self.old, self.new), self.old)
            await (self._take_over() if self.new.is_ours else self._back.bring())
        except (_NotTold, _UnderWay):
            raise
        except RocketLakeError as error:
            if not await self._is_slave_for_sure(self.new):
                raise self._not_told(error) from error
            if before is not None:
                await self._give_back(before, error)
            raise
        if not self.new.is_ours:
            await self._back.start()
        self._say(f"{self.new.address} is the master")
        return self._clock.monotonic() - began

    async def _take_over(self) -> None:
        """Have the new one be the master.

        One whose answer got lost may be changing still: it is asked again until it says how that ended. A master says
        yes at once, so the question may be repeated.
        """
        until = None
        while True:
            try:
                return await self.new.change_role(0, self.old.address, self._addresses())
            except RocketLakeError as error:
                if isinstance(error, RemoteError) and error.code != ResponseCode.SYSTEM_BUSY:
                    raise
                _log.info("%s does not say how it ended: %s", self.new.address, error)
                until = until or self._clock.monotonic() + _PATIENCE_SECONDS
                if self._clock.monotonic() > until:
                    raise self._not_told(error) from error
            await self._clock.sleep(_LOOK_SECONDS)

    def _not_told(self, error: RocketLakeError) -> _NotTold:
        return _NotTold(
            f"it is not known whether {self.new.address} is the master now: {error.what}",
            hint="repeat the command when it answers: nobody takes messages until then, or it does already",
        )

    async def _step_down(self, peer: Peer, broker_id: int) -> None:
        """Have a master take no more messages, as a slave with this id."""
        if peer.is_ours:
            try:
                await peer.change_role(broker_id)
            except RemoteError as error:
                if error.code != ResponseCode.SYSTEM_BUSY:
                    raise
                raise _UnderWay(
                    f"another takeover from {peer.address} is under way: this one has changed nothing",
                    hint="wait until that has ended; `rocketlake takeover --dry-run` says how",
                ) from error
        else:
            keeps = {_RETRIES: "true"} if _RETRIES in peer.settings else {}
            await peer.change({"brokerRole": "SLAVE", "brokerId": str(broker_id), **keeps})
            await self._register(peer)
        await peer.look()
        if not peer.is_slave:
            raise RocketLakeError(f"{peer.address} did not become a slave", hint="look at its log")

    async def _register(self, peer: Peer) -> None:
        """Have an Apache broker tell the name servers at once: it does so when its permission is set, also to the same.

        One that does not answer in time tells them within half a minute anyway.
        """
        try:
            await peer.change({"brokerPermission": peer.settings.get("brokerPermission", "6")})
        except LinkError as error:
            _log.info("%s tells the name servers later: %s", peer.address, error)

    async def _give_back(self, before: dict[str, str], why: RocketLakeError) -> None:
        """The new broker did not take over: the old one goes on, unless another takeover is under way."""
        await self._check_rivals(why)
        ahead = await self.new.log_end() - await self.old.log_end()
        if ahead > 0:
            raise LinkError(
                f"{self.new.address} has {ahead} bytes that {self.old.address} lacks: that does not become master"
                f" again: {why.what}",
                hint="repeat the command: it makes the broker with the longer log the master",
            ) from why
        if self.old.is_ours:
            await self.old.change_role(0, self.new.address, self._addresses(), keeps_tables=True)
        else:
            await self.old.change({key: before[key] for key in ("brokerRole", "brokerId")})
            await self.old.change({key: before[key] for key in (_RETRIES,) if key in before})
            await self._register(self.old)
        self._say(f"{self.old.address} is the master again: {why.what}")

    async def _check_rivals(self, why: RocketLakeError) -> None:
        for rival in self._rivals:
            try:
                leads = await rival.may_lead()
            except RocketLakeError as error:
                raise self._kept(f"{rival.address} does not say its role ({error.what})", why) from error
            if leads:
                raise self._kept(f"{rival.address} takes over, too, or is the master already", why)

    def _kept(self, what: str, why: RocketLakeError) -> LinkError:
        return LinkError(
            f"{self.old.address} is not the master again: {what}; {self.new.address} is not, either: {why.what}",
            hint="repeat the command when the other takeover has ended: `rocketlake takeover --dry-run`",
        )

    def _addresses(self) -> list[str]:
        return [rival.address for rival in self._rivals]

    async def _is_slave_for_sure(self, peer: Peer) -> bool:
        """True if it says so; False if it is the master, or does not answer."""
        until = self._clock.monotonic() + _PATIENCE_SECONDS
        while self._clock.monotonic() < until:
            try:
                await peer.look()
                return peer.is_slave
            except RocketLakeError as error:
                _log.info("%s does not answer: %s", peer.address, error)
                await self._clock.sleep(_LOOK_SECONDS)
        return False
