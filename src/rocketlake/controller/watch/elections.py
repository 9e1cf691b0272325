"""The watch over masters: suspicion, probes, and the election that follows.

Owns        when a group is looked at, one attempt at a time for each group, the questions to the candidates.
Must not know   the rules of suspicion (suspicion.py) and of choice (controller/election.py), the requests of brokers.

All controllers do this at the same time. Two that elect decide on the same state, and one swap wins; the other one
finds a living master in the new state and leaves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import Group
from rocketlake.controller.questions import Alive, Elect, Heard
from rocketlake.controller.watch.liveness import BrokerKey, Liveness
from rocketlake.controller.watch.probes import Door, Probes
from rocketlake.controller.watch.suspicion import Action, Verdict, heirs, judge, serves

__all__ = ["Elections"]

_log = get_logger(__name__)

_LOOKS_PER_LIMIT: Final = 10
_FRESH_SECONDS: Final = 0.3
"""A heartbeat that is not older says how long the log of a candidate is; else the candidate is asked."""


class Elections(Service):
    """Finds dead masters and has others elected."""

    def __init__(
        self, decider: Decider, liveness: Liveness, probes: Probes, clock: Clock, unclean: Callable[[], bool]
    ) -> None:
        """`unclean`: may a replica be the master that may lack acknowledged messages?"""
        super().__init__("elections", clock)
        self._decider = decider
        self._liveness = liveness
        self._probes = probes
        self._unclean = unclean
        self._busy: set[str] = set()
        """Groups for which an attempt is under way."""
        self._in_vain: dict[str, set[int]] = {}
        """By group: the masters in a row that had too few replicas in step. They come last in the next election."""
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)
        decider.on_changed.append(self._changed)
        liveness.on_closed.append(self._look_soon)
        liveness.on_heard.append(self._look_soon)

    async def start(self) -> None:
        """Begin to watch."""
        await super().start()
        self.every("look", self._liveness.limit_seconds / _LOOKS_PER_LIMIT, self._look_at_all)

    def _changed(self, name: str, before: Group, after: Group, _by_us: bool) -> None:
        if before.master is not None and before.master != after.master and len(before.in_sync) < before.min_in_sync:
            self._in_vain.setdefault(name, set()).add(before.master)

    def _look_at_all(self) -> None:
        for name in tuple(self._decider.groups):
            self._look(name)

    def _look_soon(self, key: BrokerKey) -> None:
        if self.is_running:
            self._look(key.group)

    def _look(self, name: str) -> None:
        group = self._decider.groups.get(name)
        if group is None or name in self._busy:
            return
        verdict = self._judge(name, group)
        if verdict.action is not Action.NOTHING:
            self._busy.add(name)
            self.spawn(f"{verdict.action.name.lower()} {name}", self._act(name, group, verdict))
        elif verdict.why:
            self._warnings.warn(name, "group %s: %s; it stays the master", name, verdict.why)

    def _judge(self, name: str, group: Group) -> Verdict:
        if len(group.in_sync) >= group.min_in_sync and serves(name, group, self._liveness):
            self._in_vain.pop(name, None)
        before = self._in_vain.get(name, set()) - {group.master}
        return judge(name, group, self._liveness, unclean=self._unclean(), in_vain=len(before))

    async def _act(self, name: str, group: Group, verdict: Verdict) -> None:
        try:
            if verdict.action is Action.PROBE:
                await self._knock(name, group)
                group = self._decider.groups.get(name, group)
                verdict = self._judge(name, group)
            if verdict.action is Action.ELECT:
                await self._elect(name, group, verdict)
        except LinkError as error:
            self._warnings.warn(f"{name} link", "group %s has no election now: %s", name, error)
        finally:
            self._busy.discard(name)

    async def _knock(self, name: str, group: Group) -> None:
        """Does the master's machine refuse connections? Then it is dead; else its next heartbeat is waited for."""
        assert group.master is not None
        key = BrokerKey(name, group.master)
        last = self._liveness.last(key)
        heard_at = last.at if last is not None else None
        if await self._probes.knock(group.members[group.master].address) is not Door.REFUSED:
            return
        last = self._liveness.last(key)
        if last is None or last.at == heard_at:  # else it was heard meanwhile
            self._liveness.refused(key)

    async def _elect(self, name: str, group: Group, verdict: Verdict) -> None:
        candidates = await self._ask_candidates(name, group)
        if not candidates:
            return
        deposed = group.master if verdict.deposes else None

        def alive(now: Group) -> Alive:
            here = self._liveness.alive(name, now.members.keys())
            if deposed is not None and now.master == deposed:
                here.pop(deposed, None)
            # A candidate that did not answer is none; a master that is back stays the master.
            alive = {
                each: candidates.get(each, heard) for each, heard in here.items() if each in {*candidates, now.master}
            }
            for each in self._in_vain.get(name, set()) & alive.keys():
                alive[each] = replace(alive[each], cannot_lead=True)
            # Who knows more than the record counts, in no set of it, too; its log is not asked for, so it comes last.
            for each, heard in here.items():
                if heard.known_epoch > now.master_epoch:
                    alive.setdefault(each, Heard(known_epoch=heard.known_epoch))
            if now.master is not None and now.master != group.master:
                alive.setdefault(
                    now.master, Heard()
                )  # another controller was quicker: its choice is not under suspicion
            return alive

        decision = await self._decider.ask(name, Elect(unclean=self._unclean()), alive)
        if decision.why:
            _log.warning("group %s: %s; epoch %d: %s", name, verdict.why, decision.group.master_epoch, decision.why)

    async def _ask_candidates(self, name: str, group: Group) -> dict[int, Heard]:
        """Those that may follow and answer now, with their logs."""
        found: dict[int, Heard] = {}
        asked: dict[int, asyncio.Task[Heard | None]] = {}
        for broker_id in heirs(name, group, self._liveness, unclean=self._unclean()):
            key = BrokerKey(name, broker_id)
            last = self._liveness.last(key)
            if last is None:
                continue
            if self._liveness.age(key) <= _FRESH_SECONDS:
                found[broker_id] = last.beat.heard
            else:
                question = self._probes.log_of(group.members[broker_id].address, last.beat.heard)
                asked[broker_id] = self.spawn(f"ask {name}/{broker_id}", question)
        for broker_id, task in asked.items():
            heard = await task
            if heard is not None:
                found[broker_id] = heard
        return found
