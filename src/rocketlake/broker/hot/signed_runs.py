"""Runs of signed requests: the kernels of plain requests see only what the user of the link has signed, and may do.

Owns        which user's requests are looked for on a link, until accounts change.
Must not know   signatures (signed_frames.pyx), what the kernels do with the requests behind it.

The first request of a user on a link takes the ordinary path: the gate notes who it was. A request of another user on
the link does the same, and so does everything that is not allowed: the gate tells why.
"""

from __future__ import annotations

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.auth.user import User
from rocketlake.broker.hot import signed_frames
from rocketlake.net.dispatcher import Run
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import FrameAsker
from rocketlake.protocol.limits import WireLimits

__all__ = ["SignedRuns"]

_USERS_MAX = 1024


class SignedRuns:
    """Serves runs of signed requests for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(self, gate: AccessGate, run: Run, wire: WireLimits) -> None:
        self._gate = gate
        self._run = run
        self._wire = wire
        self._edition = -1
        self._frames: dict[tuple[str, str], signed_frames.SignedFrames] = {}
        self._looked_at: tuple[signed_frames.SignedFrames | None, bytes, int, bytes] = (None, b"", 0, b"")
        """By whose signature, the chunk, from where, and its part up to where it was signed and allowed."""

    def serve(self, link: FrameAsker, ready: bytes, position: int, turn_end: float) -> int:
        """Serve the plain requests of `ready` from `position` on that the user of the link has signed and may send."""
        user = link.user
        if user is None:
            return position
        allowed = self._allowed(self._of(user, link.remote[0]), ready, position)
        return self._run(link, allowed, position, turn_end) if len(allowed) > position else position

    def _allowed(self, frames: signed_frames.SignedFrames, ready: bytes, position: int) -> bytes:
        """The start of `ready`, up to where it is allowed.

        It is looked at once, if not all is served at once. Runs get the same object then: by it they know a chunk that
        they have given up.
        """
        by, chunk, start, part = self._looked_at
        if by is frames and chunk is ready and start <= position < len(part):
            return part
        end = frames.end(ready, position)
        part = ready if end == len(ready) else ready[:end]
        self._looked_at = frames, ready, position, part
        return part

    def _of(self, user: User, host: str) -> signed_frames.SignedFrames:
        if self._edition != self._gate.edition or len(self._frames) >= _USERS_MAX:
            self._edition = self._gate.edition
            self._frames.clear()
        key = user.name, host
        frames = self._frames.get(key)
        if frames is None:
            frames = self._frames[key] = self._make(user.name, host)
        return frames

    def _make(self, name: str, host: str) -> signed_frames.SignedFrames:
        gate = self._gate

        def allows(topic: str, group: str | None) -> bool:
            if group is None:
                return gate.allows(name, host, on_topic(topic, Action.PUB))
            return gate.allows(name, host, on_topic(topic, Action.SUB), on_group(group, Action.SUB))

        return signed_frames.SignedFrames(
            name, gate.secret_of(name), allows, self._wire.frame_bytes, self._wire.header_bytes
        )
