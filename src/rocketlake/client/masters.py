"""The search for a new master when the present one of a broker name seems to be gone.

Owns        which masters are in doubt, how often the name servers are asked about them, requests that wait long for a
            master, the end of links to a master that was replaced.
Must not know   what is sent to a master, what a route is made of (routes.py).

A master is in doubt when a link to it breaks, when it answers that it is a slave, when a request waits for its answer
for half a second, and when a route names replicas without a master. Then the name servers are asked one after the
other: at once, after 20, 50 and 100 ms, every 200 ms, after some seconds once a second; each pause is drawn by chance
from half of it to one and a half. There is one such search for a broker name, however many requests doubt its master.

A request that an old master has not answered by then fails with a LinkError as soon as there is a new one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.recent import Recent
from rocketlake.client.routes import RouteCache

__all__ = ["Masters"]

_log = get_logger(__name__)

SLOW_SECONDS = 0.5
"""A request that waits longer than this puts its master in doubt."""
_LOOK_SECONDS = 0.1
_FIRST_PAUSES = (0.004, 0.02, 0.05, 0.1)
_PAUSE_SECONDS = 0.2
_QUICK_SECONDS = 5.0
_LONG_PAUSE_SECONDS = 1.0
_SEARCH_SECONDS = 30.0
_CALM_SECONDS = 2.0
"""After a search that found the old master, slow answers begin no other one for so long."""
_MOVED_SECONDS = 60.0
"""A move of longer ago is forgotten."""


@dataclass(slots=True)
class _Search:
    """The search for another master than the one at `seen`."""

    topic: str
    seen: str | None
    first: int
    """The number of the first request that begins after it."""
    news: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    is_over: bool = False


class Masters:
    """The masters of all broker names of one client."""

    def __init__(
        self,
        routes: RouteCache,
        ask: Callable[[str, bool], Awaitable[object]],
        give_up: Callable[[str, str], None],
        clock: Clock,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """`ask(topic, elsewhere)`: ask for a route, `elsewhere`: at the next name server.

        `give_up(address, why)`: end the link to an address.
        """
        self._routes = routes
        self._ask = ask
        self._give_up = give_up
        self._clock = clock
        self._spawn = spawn
        self._searches: dict[str, _Search] = {}
        self._calm: Recent[bool] = Recent(clock, _CALM_SECONDS)
        self._moved_at: Recent[float] = Recent(clock, _MOVED_SECONDS)
        self._waiting: dict[int, tuple[float, str, str, str]] = {}
        """Requests without an answer: since when, address, broker name, topic; the oldest comes first."""
        self._next = 0
        """The number of the next request."""
        self._is_watched = False
        self.on_move: list[Callable[[str], object]] = []
        """Called with the broker name when another broker has become its master."""

    # -- requests that wait for a master -------------------------------------------------------------------------------

    def begin(self, address: str, broker_name: str, topic: str) -> int:
        """A request goes to this master. Returns the number by which to `end` it."""
        number, self._next = self._next, self._next + 1
        self._waiting[number] = self._clock.monotonic(), address, broker_name, topic
        if not self._is_watched:
            self._is_watched = True
            self._spawn("requests that wait", self._watch())
        return number

    def end(self, number: int) -> None:
        """The request has its answer, or none will come."""
        del self._waiting[number]

    async def _watch(self) -> None:
        try:
            while self._waiting:
                await self._clock.sleep(_LOOK_SECONDS)
                self._look()
        finally:
            self._is_watched = False

    def _look(self) -> None:
        begun_before = self._clock.monotonic() - SLOW_SECONDS
        slow: dict[tuple[str, str], str] = {}
        for since, address, broker_name, topic in self._waiting.values():
            if since > begun_before:
                break
            slow[address, broker_name] = topic
        for (address, broker_name), topic in slow.items():
            if self._is_replaced(broker_name, address):
                self._give_up(address, f"it is the master of {broker_name} no longer, and requests to it wait")
            else:
                self.doubt(broker_name, topic, address, is_slow=True)

    # -- the search ----------------------------------------------------------------------------------------------------

    @property
    def in_doubt(self) -> Collection[str]:
        """The broker names whose master is looked for."""
        return self._searches.keys()

    def doubt(self, broker_name: str, topic: str, address: str | None, *, is_slow: bool = False) -> None:
        """The master at this address (None: the route names none) seems to be gone. `topic`: one that it serves."""
        if self._is_replaced(broker_name, address):
            return
        search = self._searches.get(broker_name)
        if search is not None:
            search.seen = address or search.seen
            return
        if is_slow and self._calm.get(broker_name):
            return
        search = self._searches[broker_name] = _Search(topic, address, self._next)
        self._spawn(f"master of {broker_name}", self._search(broker_name, search))

    def heard(self, broker_name: str, address: str, number: int) -> None:
        """The master at this address has taken this request: if it began after the doubt, there is none any more."""
        search = self._searches.get(broker_name)
        if search is not None and number >= search.first and self._routes.master(broker_name) == address:
            self._finish(broker_name, search)

    async def wait(self, broker_name: str, seen: str | None, seconds: float) -> None:
        """Until there is another master than the one at `seen`, or the time is up."""
        search = self._searches.get(broker_name)
        if self._is_replaced(broker_name, seen):
            return
        if search is None:
            await self._clock.sleep(seconds)
        else:
            await self._clock.wait(search.news, seconds)

    async def _search(self, broker_name: str, search: _Search) -> None:
        until = self._clock.monotonic() + _SEARCH_SECONDS
        try:
            for number, pause in enumerate(self._pauses()):
                await self._clock.sleep(pause * random.uniform(0.5, 1.5))
                if search.is_over or self._clock.monotonic() > until:
                    break
                try:
                    await self._ask(search.topic, number > 0)
                except RocketLakeError as error:
                    _log.debug("no word about the master of %s: %s", broker_name, error)
                if self._is_replaced(broker_name, search.seen):
                    break
        finally:
            self._finish(broker_name, search)

    def _finish(self, broker_name: str, search: _Search) -> None:
        """At once, so that a doubt which comes behind it begins another search."""
        search.is_over = True
        if self._searches.get(broker_name) is search:
            del self._searches[broker_name]
            self._calm.put(broker_name, True)
        if not search.news.done():
            search.news.set_result(None)

    def _pauses(self) -> Iterator[float]:
        yield from _FIRST_PAUSES
        quick_until = self._clock.monotonic() + _QUICK_SECONDS
        while True:
            yield _PAUSE_SECONDS if self._clock.monotonic() < quick_until else _LONG_PAUSE_SECONDS

    def _is_replaced(self, broker_name: str, address: str | None) -> bool:
        return self._routes.master(broker_name) not in (None, address)

    # -- a new master --------------------------------------------------------------------------------------------------

    def moved(self, broker_name: str, old: str, new: str) -> None:
        """A route names another master than before."""
        _log.info("the master of %s is at %s now, it was at %s", broker_name, new, old)
        search = self._searches.get(broker_name)
        if search is not None:
            self._finish(broker_name, search)
        self._moved_at.put(broker_name, self._clock.monotonic())
        for listener in tuple(self.on_move):
            listener(broker_name)
        self._spawn(f"end of the old master of {broker_name}", self._leave(broker_name, old))

    def has_just_moved(self, broker_name: str, seconds: float) -> bool:
        """True when another broker became this master less than so long ago, as far as this client knows.

        `seconds`: at most _MOVED_SECONDS.
        """
        at = self._moved_at.get(broker_name)
        return at is not None and self._clock.monotonic() - at < seconds

    async def _leave(self, broker_name: str, old: str) -> None:
        """Pulls that it holds go to the new master; before that it answers the sends that it has stored."""
        self._look()
        await self._clock.sleep(SLOW_SECONDS)
        if self._is_replaced(broker_name, old):
            self._give_up(old, f"it is the master of {broker_name} no longer")
