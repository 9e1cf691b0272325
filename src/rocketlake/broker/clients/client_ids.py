"""Whose client id it is, on a broker that knows users.

Owns        the user of each client id, how long that is known, the refusal of another user.
Must not know   groups and locks, what a client does with its id.

A client id is no secret: each member of a group is told those of the others. It gives a member its queues, keeps its
locks and brings it its answers. So it belongs to the user that names it first, until 120 s after that user was heard
with it: without that time another user would take it while its client connects anew. Super users, as brokers are for
each other, may speak for a client, and take no id that way.
"""

from __future__ import annotations

from rocketlake.auth.action import AccessRefused
from rocketlake.auth.user import User
from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.broker.clients.member import SILENT_SECONDS_MAX
from rocketlake.net.shares import Shares

__all__ = ["ClientIds"]


class ClientIds:
    """The ids that are known. Without users every call does nothing: `user` is None."""

    def __init__(self, clock: Clock, most: int = 400_000, most_of_one: int = 200_000) -> None:
        """`most`, `most_of_one`: membershipsMax, membershipsOfOneMax; an id is of use in a group only."""
        self._clock = clock
        self._shares = Shares(most, most_of_one)
        self._users: dict[str, tuple[str, float]] = {}
        """By client id: its user, and when that was heard with it. Those heard last come last."""

    def claim(self, user: User | None, client_id: str) -> None:
        """The user names this id as that of its client. Raises AccessRefused: it is another user's."""
        if user is None:
            return
        self.check(user, client_id)
        known = self._users.get(client_id)
        if known is None:
            if not self._shares.has_room(user.name):
                raise UsageError(
                    f"user {user.name} has named {self._shares.of(user.name)} client ids, no more are kept",
                    hint="start clients less often, or raise membershipsOfOneMax and membershipsMax in broker.conf",
                )
            self._shares.take(user.name)
        elif known[0] != user.name:
            return  # a super user, who speaks for the client
        else:
            del self._users[client_id]
        self._users[client_id] = user.name, self._clock.monotonic()

    def check(self, user: User | None, client_id: str) -> None:
        """Return if the user may speak for this client id, else raise AccessRefused."""
        if user is None:
            return
        self.expire()
        owner, _heard = self._users.get(client_id, (user.name, 0.0))
        if owner != user.name and not user.is_super:
            raise AccessRefused(
                f"client id {client_id[:128]} is that of user {owner}, not of {user.name}",
                hint="give each client an instance name of its own; after another user had it, wait for 2 minutes",
            )

    def expire(self) -> None:
        """Forget ids whose users were silent. Those that are left cost nothing."""
        oldest = self._clock.monotonic() - SILENT_SECONDS_MAX
        while self._users:
            client_id, (owner, heard) = next(iter(self._users.items()))
            if heard >= oldest:
                break
            del self._users[client_id]
            self._shares.give(owner)
