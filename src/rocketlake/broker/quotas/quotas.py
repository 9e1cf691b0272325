"""The quotas of users and topics at this broker: who has one, and what it has left.

Owns        the meters, which of them a request must pass, the answer to a send that passes none.
Must not know   where quotas are kept, how a pull waits (processors/pull.py), runs (hot/).

A meter stays as long as its quota is the same: a change of another user or topic fills no bucket. Parts of
this process, and what replicas copy, are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rocketlake.auth.accounts import Accounts
from rocketlake.auth.user import User
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.quotas.meter import Meter, Pause
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.record_layout import RECORD_BYTES_MIN
from rocketlake.model.quota import Quota, quota_of
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Quotas"]

_log = get_logger(__name__)


class Quotas:
    """Of one broker."""

    def __init__(self, topics: TopicTable, accounts: Accounts | None, clock: Clock) -> None:
        """`accounts`: None on a broker without users."""
        self.is_any = False
        """False: nobody has a quota. A hot path looks here first."""
        self._topics = topics
        self._accounts = accounts
        self._now = clock.monotonic
        self._of_user: dict[str, Meter] = {}
        self._of_topic: dict[str, Meter] = {}
        self._warnings = RareWarnings(_log, clock=clock)
        topics.on_change.append(self._topic_changed)
        for topic in topics.all():
            self._topic_changed(topic.name)
        if accounts is not None:
            accounts.on_change.append(self._users_changed)
            self._users_changed()

    # -- sends ---------------------------------------------------------------------------------------------------------

    def pause_in(self, user: User | None, topics: Iterable[str]) -> Pause | None:
        """Why this user may not send to these topics now; None: it may."""
        now = self._now()
        return self._first(user, topics, lambda meter: meter.pause_in(now))

    def spend_in(self, user: User | None, counts: Iterable[tuple[str, int, int, int]]) -> None:
        """A run was taken: (topic, messages, bytes of their records, requests) of each topic."""
        now = self._now()
        of_user = None if user is None else self._of_user.get(user.name)
        for topic, _messages, size, requests in counts:
            if of_user is not None:
                of_user.spend_in(requests, size, now)
            if (of_topic := self._of_topic.get(topic)) is not None:
                of_topic.spend_in(requests, size, now)

    def refuse_send(self, request: Request) -> Reply | None:
        """The answer to a send above a quota; None: it passes, and is counted."""
        fields = request.command.fields or {}
        topic = fields.get("topic") or fields.get("b") or ""
        pause = self.pause_in(request.user, (topic,))
        if pause is None:
            size = RECORD_BYTES_MIN + len(topic) + len(fields.get("properties") or fields.get("i") or "")
            self.spend_in(request.user, ((topic, 1, size + len(request.body), 1),))
            return None
        return self.busy(request, pause)

    def busy(self, request: Request, pause: Pause) -> Reply:
        """A refusal that clients try again, here or elsewhere."""
        remark = f"[QUOTA]system busy, start flow control for a while: {pause.why}"
        self._warnings.warn(pause.why.partition(":")[0], "a request of %s is refused: %s", request.address, remark)
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)

    # -- pulls ---------------------------------------------------------------------------------------------------------

    def pause_out(self, user: User | None, topic: str) -> Pause | None:
        """Why this user may not read the topic now; None: it may."""
        now = self._now()
        return self._first(user, (topic,), lambda meter: meter.pause_out(now))

    def spend_out(self, user: User | None, topic: str, requests: int, size: int) -> None:
        """So many pulls were served, with messages of so many bytes."""
        now = self._now()
        if user is not None and (of_user := self._of_user.get(user.name)) is not None:
            of_user.spend_out(requests, size, now)
        if (of_topic := self._of_topic.get(topic)) is not None:
            of_topic.spend_out(requests, size, now)

    # -- meters --------------------------------------------------------------------------------------------------------

    def _first(
        self, user: User | None, topics: Iterable[str], pause_of: Callable[[Meter], Pause | None]
    ) -> Pause | None:
        meters = [self._of_user.get(user.name) if user is not None else None, *map(self._of_topic.get, topics)]
        return next((pause for meter in meters if meter is not None and (pause := pause_of(meter))), None)

    def _topic_changed(self, name: str) -> None:
        topic = self._topics.get(name)
        quota = quota_of(topic.attributes) if topic is not None else Quota()
        _keep(self._of_topic, name, quota, f"topic {name}", f"`rocketlake topic alter {name} --attribute` changes it")
        self.is_any = bool(self._of_topic or self._of_user)

    def _users_changed(self) -> None:
        assert self._accounts is not None
        users: Mapping[str, User] = self._accounts.users
        for name in [name for name in self._of_user if name not in users]:
            del self._of_user[name]
        for name, user in users.items():
            if user.quota or name in self._of_user:
                _keep(self._of_user, name, user.quota, f"user {name}", f"`rocketlake acl change {name}` changes it")
        self.is_any = bool(self._of_topic or self._of_user)


def _keep(meters: dict[str, Meter], name: str, quota: Quota, owner: str, cure: str) -> None:
    """Have a meter of this quota, or none; the one that is there if its quota is this one."""
    known = meters.get(name)
    if not quota:
        meters.pop(name, None)
    elif known is None or known.quota != quota:
        meters[name] = Meter(owner, quota, cure)
