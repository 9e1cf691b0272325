"""Requests that need bytes which are not in memory: held while a worker brings them, then served once more.

Owns        which requests wait for the disk, how many may, the order of those of one asker that must keep it.
Must not know   what is read, what a handler does.

A handler is run with the disk forbidden (store/disk_wait.py). It must not have changed anything when it comes to bytes
that are not in memory, for it runs again from its start. Pulls do not wait here, but in reads/waiting_pulls.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Asker, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart

__all__ = ["ColdRequests"]

_LOADS_MAX = 1000
"""So often a worker reads for one request. Memory that loses everything at once is waited for after that."""


class ColdRequests(Service):
    """Makes handlers that never wait for the disk on the loop."""

    def __init__(self, config: LiveConfig, store: MessageStore, turns: Turns) -> None:
        super().__init__("cold-requests")
        self.serving_now: Callable[[int, Handler], Handler] = lambda _code, serve: serve
        """(code, handler when the request came) -> handler now: a change of role turns requests away that wait."""
        self._config = config
        self._store = store
        self._turns = turns
        self._held: set[Request] = set()
        self._lines: dict[Asker, deque[tuple[Request, Handler]]] = {}
        """Askers with a request that waits and must not be passed: that request first, those behind it in order."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def handler(self, serve: Handler) -> Handler:
        """`serve`, so that a request waits without the loop."""
        return lambda request: self._serve(request, serve, 0)

    def handler_in_order(self, serve: Handler) -> Handler:
        """The same; a later request of the same asker does not pass one that waits."""

        def serve_in_order(request: Request) -> Reply | Held:
            line = self._lines.get(request.asker)
            if line is not None:
                if self._is_full:
                    return self._busy()
                self._held.add(request)
                line.append((request, serve))
                return HELD
            reply = self._serve(request, serve, 0)
            if request in self._held:
                self._lines[request.asker] = deque([(request, serve)])
            return reply

        return serve_in_order

    async def stop(self) -> None:
        """Answer the requests that wait: the broker stops. A request that comes now has the loop wait for the disk."""
        await super().stop()
        self._is_closed = True
        held, self._held = self._held, set()
        self._lines.clear()
        for request in held:
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark="the broker stops, ask another one"))

    def _serve(self, request: Request, came_to: Handler, loads: int) -> Reply | Held:
        serve = self.serving_now(request.command.code, came_to)
        if loads >= _LOADS_MAX or self._is_closed:
            return serve(request)
        try:
            with self._store.disk_wait.none():
                return serve(request)
        except NotInMemory as needed:
            if not loads and self._is_full:
                return self._busy()
            self._held.add(request)
            self._load(request, came_to, loads + 1, needed.parts)
            return HELD

    def _load(self, request: Request, serve: Handler, loads: int, cold: Sequence[ColdPart]) -> None:
        def loaded(error: Exception | None) -> None:
            if request in self._held:
                self._turns.wait(lambda _turn_end: self._go_on(request, serve, loads, error))

        self._store.load(cold, loaded)

    def _go_on(self, request: Request, serve: Handler, loads: int, error: Exception | None) -> None:
        if request not in self._held:
            return
        self._held.discard(request)
        if error is not None:
            remark = f"the store cannot be read: {error}"
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=remark))
        else:  # for an asker that is gone, too: it may have asked for a change
            reply = run_handler(lambda request: self._serve(request, serve, loads), request)
            if isinstance(reply, Reply):
                request.answer(reply)
        if request not in self._held:
            self._next_in_line(request)

    def _next_in_line(self, done: Request) -> None:
        """Serve the requests behind `done`, up to the next one that must wait; only if `done` led its line."""
        line = self._lines.get(done.asker)
        if line is None or line[0][0] is not done:
            return
        line.popleft()
        while line:
            request, serve = line[0]
            self._held.discard(request)
            reply = run_handler(lambda request, serve=serve: self._serve(request, serve, 0), request)  # type: ignore[misc]
            if isinstance(reply, Reply):
                request.answer(reply)
            if request in self._held:
                return
            line.popleft()
        del self._lines[done.asker]

    @property
    def _is_full(self) -> bool:
        return len(self._held) >= self._config.now.held_pulls_max

    def _busy(self) -> Reply:
        remark = (
            f"[OVERLOAD]system busy, start flow control for a while: {len(self._held)} requests wait for the disk"
            " (pullThreadPoolQueueCapacity)"
        )
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
