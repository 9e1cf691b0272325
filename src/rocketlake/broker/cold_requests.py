"""Requests that need bytes which are not in memory: held while a worker brings them, then served once more.

Owns        which requests wait for the disk, how many may, the order of those of one asker that must keep it.
Must not know   what is read, what a handler does.

A handler is run with the disk forbidden (store/disk_wait.py). It must not have changed a table when it comes to bytes
that are not in memory, for it runs again from its start. A handler in steps (net/reply_steps.py) has each of its reads
done by `read`: only that read runs again. Pulls do not wait here, but in reads/waiting_pulls.py.

Why: docs/decisions/0022-the-loop-never-waits-for-the-disk.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

from rocketlake.base.callbacks import Wait
from rocketlake.base.errors import RemoteError
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.net.request import HELD, Asker, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart

__all__ = ["ColdRequests"]

_LOADS_MAX = 1000
"""So often a worker reads for one request. Memory that loses everything at once is waited for after that."""

T = TypeVar("T")


class ColdRequests(Service):
    """Makes handlers that never wait for the disk on the loop."""

    def __init__(self, config: LiveConfig, store: MessageStore, turns: Turns) -> None:
        super().__init__("cold-requests")
        self.serving_now: Callable[[int, Handler], Handler] = lambda _code, serve: serve
        """(code, handler when the request came) -> handler now: a change of role turns requests away that wait."""
        self.check_late: Callable[[Request], Reply | Held | None] = lambda _request: None
        """Holds a request that has waited here and may need the next file of the log, if that is late (late_log.py)."""
        self._config = config
        self._store = store
        self._turns = turns
        self._held: HeldRequests[Request | Asker] = HeldRequests()
        """By the request itself while a worker reads for it; by its asker while it stands behind such a request."""
        self._leaders: dict[Asker, Request] = {}
        """Askers with a request that waits for the disk and must not be passed, and that request."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def handler(self, serve: Handler) -> Handler:
        """`serve`, so that a request waits without the loop."""
        return lambda request: self._serve(request, serve, 0)

    def handler_in_order(self, serve: Handler) -> Handler:
        """The same; a later request of the same asker does not pass one that waits."""

        def serve_in_order(request: Request) -> Reply | Held:
            if self.holds_from(request.asker):
                if self._is_full:
                    return Reply(ResponseCode.SYSTEM_BUSY, remark=self._busy_text)
                self._held.hold(request.asker, request, partial(self._unless_late, serve=serve_in_order))
                return HELD
            reply = self._serve(request, serve, 0)
            if request in self._held:
                self._leaders[request.asker] = request
            return reply

        return serve_in_order

    def holds_from(self, asker: Asker) -> bool:
        """True while a request of this asker waits that no later one served by `handler_in_order` may pass."""
        return asker in self._leaders

    def read(self, request: Request, read: Callable[[], T]) -> Generator[Wait, None, T]:
        """For a request that is served in steps: what `read` gives, after as many waits for the disk as it needs.

        Raises RemoteError if too many requests wait. If the disk cannot be read the request is answered, and its steps
        do not go on.
        """
        for loads in range(_LOADS_MAX):
            if self._is_closed:
                break
            try:
                with self._store.disk_wait.none():
                    return read()
            except NotInMemory as needed:
                cold = needed.parts
            if not loads and self._is_full:
                raise RemoteError(self._busy_text, code=ResponseCode.SYSTEM_BUSY)
            yield partial(self._wait, request, cold)
        return read()

    async def stop(self) -> None:
        """Answer the requests that wait: the broker stops. A request that comes now has the loop wait for the disk."""
        await super().stop()
        self._is_closed = True
        self._leaders.clear()
        self._held.settle_all(_refused("the broker stops, ask another one"))

    def _serve(self, request: Request, came_to: Handler, loads: int) -> Reply | Held:
        serve = self.serving_now(request.command.code, came_to)
        if loads >= _LOADS_MAX or self._is_closed:
            return serve(request)
        try:
            with self._store.disk_wait.none():
                return serve(request)
        except NotInMemory as needed:
            if not loads and self._is_full:
                return Reply(ResponseCode.SYSTEM_BUSY, remark=self._busy_text)
            again = partial(self._serve, came_to=came_to, loads=loads + 1)
            self._hold(request, needed.parts, partial(self._unless_late, serve=again))
            return HELD

    def _unless_late(self, request: Request, serve: Handler) -> Reply | Held:
        """Serve a request that waited here, or have it wait for the next file of the log."""
        late = self.check_late(request)
        return serve(request) if late is None else late

    def _wait(self, request: Request, cold: Sequence[ColdPart], go_on: Callable[[], object]) -> None:
        def again(_request: Request) -> Held:
            go_on()
            return HELD

        self._hold(request, cold, again)

    def _hold(self, request: Request, cold: Sequence[ColdPart], again: Handler) -> None:
        """Have a worker bring these parts, then serve the request by `again`; or answer it with the disk's error.

        Also for an asker that is gone: it may have asked for a change.
        """

        def brought(error: Exception | None) -> None:
            instead = None if error is None else _refused(f"the store cannot be read: {error}")
            self._turns.wait(lambda _turn_end: self._settle(request, instead))

        self._held.hold(request, request, again)
        self._store.load(cold, brought)

    def _settle(self, request: Request, instead: Handler | None) -> None:
        """Serve a request that waited; then those behind it, up to the next one that must wait."""
        self._held.settle(request, instead)
        if request not in self._held and self._leaders.get(request.asker) is request:
            del self._leaders[request.asker]
            self._held.settle(request.asker)

    @property
    def _is_full(self) -> bool:
        return len(self._held) >= self._config.now.held_pulls_max

    @property
    def _busy_text(self) -> str:
        return (
            f"[OVERLOAD]system busy, start flow control for a while: {len(self._held)} requests wait for the disk"
            " (pullThreadPoolQueueCapacity)"
        )


def _refused(remark: str) -> Handler:
    return lambda _request: Reply(ResponseCode.SYSTEM_ERROR, remark=remark)
