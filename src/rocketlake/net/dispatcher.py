"""Dispatcher: request code -> handler, and each failure of a request -> an answer.

Owns        the table, the hooks before and after a handler, the texts of the general failures.
Must not know   what the handlers do, sockets.

Order (docs/internals/wire.md, "Dispatch"): the gate, before-hooks, handler, after-hooks. A one-way request is never
answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketlake.auth.action import AccessRefused
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.audit import Audit
from rocketlake.net.gate.needs import Needs
from rocketlake.net.request import HELD, FrameAsker, Handler, Held, Reply, Request
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

log: Final = get_logger(__name__)


_REFUSALS: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
_REASON: Final = re.compile(r"\[?([A-Z][A-Z_]+)(?:\]|:|$)")
"""How the remark of a refusal starts: "[OVERLOAD]system busy", "DISK_FULL: ..."."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request code: its handler, what the request must be allowed to do, and its lane.

    A lane is a name that groups codes for limits and figures.
    """

    code: int
    handler: Handler
    needs: Needs
    lane: str = "quick"
    body_bytes_max: int | None = None
    """A larger body is refused before it is read; None: the limit of a frame holds."""


Run: TypeAlias = Callable[[FrameAsker, bytes, int, float], int]
"""(asker, whole frames and perhaps the start of one, position, turn's end): serves the requests from the position on.

Requests that take a turn are served only until its end (monotonic time). Returns the position behind those served."""


Hook: TypeAlias = Callable[[Request], "Reply | Held | None"]
"""A before-hook."""


class Dispatcher:
    """Serves requests by their code, if the gate lets them in.

    Hooks may be added at any time; the next request passes them.

    A before-hook returns a Reply to answer in the handler's place, HELD if it has the request served later, or None to
    go on; it may raise as a handler does. An after-hook sees each reply before it is written, also the replies to held
    requests.
    """

    def __init__(self, rows: Iterable[Row], gate: AccessGate | None = None, audit: Audit | None = None) -> None:
        """`gate`: None for a client, which serves what its own servers ask. `audit`: None: nothing is noted."""
        self.gate = gate
        self.audit = audit
        self._needs: dict[int, Needs] = {}
        self.before: list[Hook] = []
        self.after: list[Callable[[Request, Reply], None]] = []
        self._handlers: dict[int, Handler] = {}
        """Handlers by code; `turn_away` puts others in their place."""
        self._turned_away: dict[int, Handler] = {}
        """The handlers that `turn_away` has replaced."""
        self.lanes: dict[int, str] = {}
        self.refusals: dict[tuple[str, str], int] = {}
        """How many requests were answered "busy" or "not now", by lane and reason."""
        self.slow: dict[int, int] = {}
        """How many requests were answered late though they did not wait, by code; -1: of codes not served here."""
        self._body_bytes_max: dict[int, int] = {}
        self._run_server: Run | None = None
        self._run_hooks: list[Hook] = []
        self.add(rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Serve more codes."""
        for row in rows:
            code = int(row.code)
            if code in self._handlers:
                raise ValueError(f"two rows for {request_name(code)}")
            self._handlers[code] = row.handler
            self._needs[code] = row.needs
            self.lanes[code] = row.lane
            if row.body_bytes_max is not None:
                self._body_bytes_max[code] = row.body_bytes_max

    def serve_runs(self, run: Run | None, passes: Iterable[Hook]) -> None:
        """Have runs of requests served by `run`, which itself does the work of the gate and of the hooks in `passes`.

        With a hook that is not in `passes`, or with None as `run`, each request is dispatched alone.
        """
        self._run_server = run
        self._run_hooks = list(passes)

    @property
    def run(self) -> Run | None:
        """The server of runs; None while there is a hook that `serve_runs` did not name."""
        return self._run_server if self.before == self._run_hooks and not self.after else None

    def turn_away(self, codes: Iterable[int], refuse: Handler) -> None:
        """Have requests of these codes answered by `refuse`, until `take_in`."""
        for code in codes:
            self._turned_away.setdefault(code, self._handlers[code])
            self._handlers[code] = refuse

    def take_in(self, codes: Iterable[int]) -> None:
        """Have requests of these codes served again."""
        for code in codes:
            self._handlers[code] = self._turned_away.pop(code, self._handlers[code])

    def serving_now(self, code: int, handler: Handler) -> Handler:
        """`handler`, which served requests of this code when they came, or the one that turns them away by now."""
        return self._handlers[code] if code in self._turned_away else handler

    def dispatch(self, request: Request) -> Reply | Held:
        """Runs hooks and handler. Never raises: an error becomes the reply."""
        reply = run_handler(self._run, request)
        if reply is not HELD:
            self.finish(request, reply)
        return reply

    def finish(self, request: Request, reply: Reply) -> None:
        """Notes what the audit wants and runs the after-hooks; a failing one is logged and changes nothing."""
        if reply.code in _REFUSALS:
            self.count_refusal(request, reply)
        if self.audit is not None and (needs := self._needs.get(request.command.code)) is not None:
            try:
                self.audit.note(request, needs, reply)
            except Exception:
                log.exception("audit of %s failed", request_name(request.code))
        for hook in self.after:
            try:
                hook(request, reply)
            except Exception:
                log.exception("after-hook of %s failed", request_name(request.code))

    def count_refusal(self, request: Request, reply: Reply) -> None:
        """Count a request that its client may repeat later, or elsewhere."""
        found = _REASON.match(reply.remark or "")
        key = self.lanes.get(request.code, "quick"), found[1] if found else ResponseCode(reply.code).name
        self.refusals[key] = self.refusals.get(key, 0) + 1

    def count_slow(self, code: int) -> None:
        """Count a request that was answered late."""
        known = code if code in self._handlers else -1
        self.slow[known] = self.slow.get(known, 0) + 1

    def serve_behind(self, hook: Hook, request: Request) -> Reply | Held:
        """Serve a request that this before-hook has held: by the hooks behind it, then by its handler. May raise."""
        for later in self.before[self.before.index(hook) + 1 :]:
            reply = later(request)
            if reply is not None:
                return reply
        return self._handlers[request.command.code](request)

    def _run(self, request: Request) -> Reply | Held:
        handler = self._handlers.get(request.command.code)
        if handler is None:
            return _not_supported(request.code)
        too_large = self.refuse_body(request.code, len(request.body))
        if too_large is not None:
            return too_large
        if self.gate is not None:
            self.gate.check(request, self._needs[request.command.code])
        for hook in self.before:
            reply = hook(request)
            if reply is not None:
                return reply
        return handler(request)

    def refuse_body(self, code: int, size: int) -> Reply | None:
        """The answer to a request that has no handler, or too large a body for it; None: the body may be read."""
        bytes_max = self._body_bytes_max.get(code)
        if code not in self._handlers:
            return _not_supported(code)
        if bytes_max is None or size <= bytes_max:
            return None
        return Reply(
            ResponseCode.SYSTEM_ERROR,
            remark=f"{request_name(code)} with a body of {size} bytes, at most {bytes_max}"
            " are taken: split it, or raise requestBodyBytesMax of the broker",
        )


def _not_supported(code: int) -> Reply:
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")


def run_handler(handler: Handler, request: Request) -> Reply | Held:
    """Runs one handler; an error that it raises becomes the reply. Also for a held request that is taken up again."""
    try:
        return handler(request)
    except RemoteError as problem:
        return Reply(problem.code, remark=_text(problem))
    except AccessRefused as problem:
        return Reply(ResponseCode.NO_PERMISSION, remark=_text(problem))
    except RocketLakeError as problem:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=_text(problem))
    except Exception as problem:
        log.exception("%s from %s failed", request_name(request.code), request.address)
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(problem).__name__}: {problem}")


def _text(problem: RocketLakeError) -> str:
    return str(problem) or type(problem).__name__
