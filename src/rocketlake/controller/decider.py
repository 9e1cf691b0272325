"""How a decision becomes the decision of all controllers: read, decide, swap, and again if another one was quicker.

Owns        the states of the groups as this controller knows them, their swaps, the history of masters in the register.
Must not know   the rules of a decision (decision.py), the requests that ask for one.

Rule: what is known here may be old. A change is made by a swap that names the revision it was decided on; a refusal is
given only on a state that has just been read. So old knowledge costs a round, and never a wrong answer.
Each state names the change that made it (`by`): that tells what became of a swap without an answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import secrets
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.controller.decision import Decision, decide
from rocketlake.controller.group import EMPTY, GROUPS, Group, from_json, group_key, to_json
from rocketlake.controller.history import history_change
from rocketlake.controller.questions import Alive, Question
from rocketlake.controller.registers.register import ABSENT, OutcomeUnknown, Register, Swapped

__all__ = ["Decider"]

_log = get_logger(__name__)

_ROUNDS_MAX: Final = 5
_READ_SECONDS: Final = 1.0
"""Pause between two reads of everything: a watch may miss a change."""
_LOST_SECONDS: Final = 0.3
"""Pause after a read without an answer."""
_KEYS_MAX: Final = 16
"""More changed keys than these are read together with all others."""


@dataclasses.dataclass(slots=True)
class _Turn:
    """One decision about a group at a time: two of this controller would only disturb each other."""

    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    users: int = 0


class Decider(Service):
    """Decides questions about groups, together with other controllers on the same register."""

    def __init__(self, register: Register, clock: Clock, name: str = "") -> None:
        """`name`: of this controller, unlike all others'; "" draws one."""
        super().__init__("decider", clock)
        self.groups: dict[str, Group] = {}
        """As known last, by broker name. Changed here only."""
        self.on_changed: list[Callable[[str, Group, Group, bool], object]] = []
        """Called with broker name, state before, state after, and whether this controller made the change."""
        self.on_read: list[Callable[[], object]] = []
        """Called after a read of everything."""
        self.decide: Callable[[Group, Question, Alive], Decision] = decide
        """The rules; a simulation may have others."""
        self._register = register
        self._name = name or secrets.token_hex(4)
        self._nonces = itertools.count(1)
        self._revisions: dict[str, int] = {}
        self._turns: dict[str, _Turn] = {}
        self._changed: set[str] = set()
        self._wake: asyncio.Future[None] | None = None
        self._unwatch: Callable[[], object] | None = None
        self._warnings = RareWarnings(_log, clock=clock)

    @property
    def trouble(self) -> str:
        """Why nothing can be decided now: the register does not answer; "" if it does."""
        trouble = self.health.troubles.get("register")
        return "" if trouble is None else trouble.reason

    async def start(self) -> None:
        """Begin to follow the register; it need not be up yet."""
        await super().start()
        self._unwatch = self._register.watch(GROUPS, self._note)
        self.keep("read", self._follow)

    async def stop(self) -> None:
        """Follow it no more."""
        if self._unwatch is not None:
            self._unwatch()
        await super().stop()

    async def ask(self, name: str, question: Question, alive: Callable[[Group], Alive]) -> Decision:
        """Decide a question about the group `name`; `alive` says who lives, at the moment of the decision.

        Raises LinkError if the register does not answer, OutcomeUnknown if the change may have been made or not.
        """
        with self._in_turn(name) as turn:
            async with turn.lock:
                return await self._ask(name, question, alive)

    async def fresh(self, name: str) -> Group:
        """The state of a group, read now. Raises LinkError."""
        await self._read_one(name)
        return self.groups.get(name, EMPTY)

    async def _ask(self, name: str, question: Question, alive: Callable[[Group], Alive]) -> Decision:
        is_fresh = False
        for _ in range(_ROUNDS_MAX):
            group, revision = self.groups.get(name, EMPTY), self._revisions.get(name, ABSENT)
            decision = self.decide(group, question, alive(group))
            if decision.why:
                recorded = await self._swap(name, revision, decision)
                if recorded is not None:
                    return dataclasses.replace(decision, group=recorded)
                is_fresh = True
            elif is_fresh:
                return decision
            else:
                await self._read_one(name)
                if self._revisions.get(name, ABSENT) == revision:
                    return decision
                is_fresh = True
        raise LinkError(f"the state of group {name} changes all the time", hint="ask again")

    async def _swap(self, name: str, revision: int, decision: Decision) -> Group | None:
        """The state that is recorded now; None if another one was recorded meanwhile."""
        before = self.groups.get(name, EMPTY)
        after = replace(decision.group, by=f"{self._name}/{next(self._nonces)}")
        beside = history_change(name, before, after, decision.why, self._clock.now_ms())
        try:
            outcome = await self._register.swap(group_key(name), revision, to_json(after), beside)
        except OutcomeUnknown:
            await self._read_one(name)
            if self.groups.get(name, EMPTY).by != after.by:
                raise
            return after
        if isinstance(outcome, Swapped):
            self._learn(name, after, outcome.revision)
            _log.info("group %s, epoch %d, set %s: %s", name, after.master_epoch, sorted(after.in_sync), decision.why)
            return after
        if outcome.value is not None:
            self._learn(name, from_json(outcome.value, group_key(name)), outcome.revision)
        else:
            self._forget(name)
        return None

    # -- what is known -------------------------------------------------------------------------------------------------

    def _note(self, keys: Set[str]) -> None:
        self._changed.update(keys or {GROUPS})
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _follow(self) -> None:
        try:
            await self._read_changed()
            self.health.set("register", "")
        except LinkError as error:
            # No longer pause: the register is back as suddenly as it went, and the changes of others wait there.
            self.health.set("register", str(error))
            await self._clock.sleep(_LOST_SECONDS)

    async def _read_changed(self) -> None:
        """Read what changed, or everything; then wait for the next change, a second at most."""
        changed, self._changed = self._changed, set()
        if changed and GROUPS not in changed and len(changed) <= _KEYS_MAX:
            for key in sorted(changed):
                await self._read_one(key.removeprefix(GROUPS))
        else:
            await self._read_all()
        if not self._changed:
            self._wake = asyncio.get_running_loop().create_future()
            await self._clock.wait(self._wake, _READ_SECONDS)

    async def _read_all(self) -> None:
        known = dict(self._revisions)
        found = await self._register.read(GROUPS)
        for name in known:
            if group_key(name) not in found and self._revisions.get(name) == known[name]:
                self._forget(name)
        for key, (value, revision) in found.items():
            self._take(key.removeprefix(GROUPS), value, revision)
        call_each(self.on_read)

    async def _read_one(self, name: str) -> None:
        known = self._revisions.get(name)
        found = (await self._register.read(group_key(name))).get(group_key(name))
        if found is not None:
            self._take(name, *found)
        elif self._revisions.get(name) == known:
            self._forget(name)

    def _take(self, name: str, value: bytes, revision: int) -> None:
        if revision <= self._revisions.get(name, ABSENT):
            return
        try:
            self._learn(name, from_json(value, group_key(name)), revision)
            self.health.set(f"group {name}", "")
        except StoreError as error:
            self.health.set(f"group {name}", str(error))

    def _learn(self, name: str, group: Group, revision: int) -> None:
        if revision <= self._revisions.get(name, ABSENT):
            return
        before = self.groups.get(name, EMPTY)
        self.groups[name], self._revisions[name] = group, revision
        call_each(self.on_changed, name, before, group, group.by.startswith(f"{self._name}/"))

    def _forget(self, name: str) -> None:
        if self.groups.pop(name, None) is not None:
            _log.warning("group %s is not in the register any more", name)
        self._revisions.pop(name, None)

    @contextmanager
    def _in_turn(self, name: str) -> Iterator[_Turn]:
        turn = self._turns.setdefault(name, _Turn())
        turn.users += 1
        try:
            yield turn
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[name]
