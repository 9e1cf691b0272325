"""EtcdCluster: one request, asked of one member after the other until one answers.

Owns        the order of the members, the deadline of each try and of all, the account's token, dropping stale answers.
Must not know   keys and values.

A request that meets an election, a paused member or a dead link is held for many seconds. So each try is short, and the
next one goes elsewhere. Tries become longer only when all members were asked twice in vain: etcd may be slow.

A try that ended without an answer may have been carried out all the same, or may be later: `Answered.in_doubt` and
`EtcdError.in_doubt` say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, ProtocolError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service, stop_each
from rocketlake.controller.etcd.codes import Next, Refusal, refusal_of
from rocketlake.controller.etcd.freshness import Freshness
from rocketlake.controller.etcd.member import Member
from rocketlake.controller.etcd.settings import EtcdSettings, read_addresses, tls_context
from rocketlake.controller.etcd.wire import (
    Authenticated,
    RangeAnswer,
    SwapAnswer,
    authenticate_body,
    read_answer,
    read_failure,
)
from rocketlake.net.http.link import HttpAnswer, HttpLink
from rocketlake.net.network import Network

__all__ = ["Answered", "EtcdCluster", "EtcdError"]

_log = get_logger(__name__)
_ROUND_PAUSE_SECONDS = 0.05
"""Between two rounds over all members: those that are down refuse at once."""
_ROUNDS_BEFORE_PATIENCE = 2
_PATIENCE_MAX = 8
_NO_ACCOUNT = Refusal(
    Next.GIVE_UP,
    is_before=True,
    hint="give the name of an etcd account with controllerEtcdUser, its password with controllerEtcdPasswordFile",
)

Form = TypeVar("Form", RangeAnswer, SwapAnswer, Authenticated)


class EtcdError(LinkError):
    """No member answered, or one refused for good. `in_doubt`: a change that was asked for may be made all the same."""

    def __init__(self, what: str, *, in_doubt: bool, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.in_doubt = in_doubt


@dataclass(frozen=True, slots=True)
class Answered(Generic[Form]):
    """A fresh answer. `in_doubt`: an earlier try had none, it may have been carried out before this one, or never."""

    answer: Form
    in_doubt: bool


@dataclass(slots=True)
class _Try(Generic[Form]):
    """How one try at one member ended: with an answer, a refusal, or neither."""

    reason: str = ""
    refusal: Refusal | None = None
    answer: Form | None = None
    has_sent: bool = False
    """True if the member may carry it out, or has."""
    token: str = ""
    link: HttpLink | None = None


class EtcdCluster(Service):
    """The members by their addresses."""

    def __init__(self, settings: EtcdSettings, network: Network, clock: Clock | None = None) -> None:
        """Raises UsageError."""
        super().__init__("etcd", clock)
        addresses = read_addresses(settings.addresses)
        context = tls_context(settings)
        self.settings = settings
        self.root = settings.root.rstrip("/") + "/"
        """In front of each key: never the start of another cluster's."""
        self.members = [Member(*each, network, context, unsafe_versions=settings.unsafe_versions) for each in addresses]
        self.freshness = Freshness(len(addresses))
        self._password = settings.password() if settings.user else ""
        self._token = ""
        self._has_accounts = bool(settings.user)
        self._first = 0
        self._patience = 1
        """Times `try_seconds` is how long a try may take now."""
        self._warnings = RareWarnings(_log, clock=self._clock)

    async def stop(self) -> None:
        """Ends the requests under way."""
        await stop_each(super().stop, *(member.close for member in self.members))

    def order(self) -> list[Member]:
        """The member that answered last, then the others."""
        return self.members[self._first :] + self.members[: self._first]

    def avoid(self, member: Member) -> None:
        """Ask another member first from now on, if this one is the first."""
        if self.members[self._first] is member:
            self._first = (self._first + 1) % len(self.members)

    def headers(self) -> dict[str, str]:
        """What goes with each request."""
        return {"Authorization": self._token} if self._token else {}

    async def ask(self, path: str, body: bytes, form: type[Form]) -> Answered[Form]:
        """The first fresh answer. Raises EtcdError after `ask_seconds`, or when a member refuses for good."""
        end = self._clock.monotonic() + self.settings.ask_seconds
        in_doubt = False
        reasons: dict[str, str] = {}
        rounds = 0
        while self._clock.monotonic() < end:
            for member in self.order():
                left = end - self._clock.monotonic()
                if left <= 0 or not self.is_running:
                    break
                ended = await self._ask_one(member, path, body, form, left)
                if ended.answer is not None:
                    self._first = self.members.index(member)
                    return Answered(ended.answer, in_doubt)
                in_doubt = in_doubt or (ended.has_sent and not (ended.refusal and ended.refusal.is_before))
                if left >= self._try_seconds or member.name not in reasons:  # one that was cut short tells nothing
                    reasons[member.name] = ended.reason
                if ended.refusal is not None and ended.refusal.next is Next.GIVE_UP:
                    raise EtcdError(f"etcd refuses: {ended.reason}", in_doubt=in_doubt, hint=ended.refusal.hint)
            if not self.is_running:
                break
            rounds += 1
            if rounds >= _ROUNDS_BEFORE_PATIENCE:
                self._patience = min(2 * self._patience, _PATIENCE_MAX)
            await self._clock.sleep(_ROUND_PAUSE_SECONDS)
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "the client is stopped"
        raise EtcdError(
            f"no member of etcd answered in time: {told}",
            in_doubt=in_doubt,
            hint="start etcd's members, and name them all in controllerEtcdAddresses",
        )

    # -- one member ----------------------------------------------------------------------------------------------------

    async def _ask_one(self, member: Member, path: str, body: bytes, form: type[Form], left: float) -> _Try[Form]:
        """One try; a second one with a new token if the member wants one."""
        if self._has_accounts and not self._token:
            refused = await self._log_in(member, left)
            if refused is not None:
                return _Try(refused.reason, refused.refusal)
        ended = await self._try(member, path, body, form, min(self._try_seconds, left))
        if ended.refusal is None or ended.refusal.next is not Next.LOG_IN:
            return ended
        if not self._password:
            return _Try(ended.reason, _NO_ACCOUNT)
        if self._token == ended.token:
            self._token = ""
            self._has_accounts = True
            refused = await self._log_in(member, left)
            if refused is not None:
                return _Try(refused.reason, refused.refusal)
        return await self._try(member, path, body, form, min(self._try_seconds, left))

    @property
    def _try_seconds(self) -> float:
        return self.settings.try_seconds * self._patience

    async def _log_in(self, member: Member, left: float) -> _Try[Authenticated] | None:
        """Get a token from this member; None if there is one, or none is needed."""
        body = authenticate_body(self.settings.user, self._password)
        seconds = min(self.settings.log_in_seconds, left)
        ended = await self._try(member, "/v3/auth/authenticate", body, Authenticated, seconds)
        if ended.answer is not None:
            self._token = ended.answer.token
            return None
        if ended.refusal is not None and ended.refusal.next is Next.NO_ACCOUNTS:
            self._has_accounts = False
            self._warnings.warn("accounts", "etcd does not ask for accounts: anyone who reaches it may change its keys")
            return None
        return ended

    async def _try(self, member: Member, path: str, body: bytes, form: type[Form], seconds: float) -> _Try[Form]:
        ended: _Try[Form] = _Try(token=self._token)
        known_revision = self.freshness.revision
        start = self._clock.monotonic()
        task = self.spawn("try", self._exchange(ended, member, path, body))
        try:
            is_done = await self._clock.wait(task, seconds)
        finally:
            task.cancel()
        answer = task.result() if is_done and not task.cancelled() else None
        if answer is None:
            ended.reason = ended.reason or f"no answer within {seconds * 1000:.0f} ms"
        elif answer.status == 200:
            if self._clock.monotonic() - start < self.settings.try_seconds:
                self._patience = 1
            self._believe(ended, member, answer, form, known_revision)
        else:
            self._refused(ended, answer)
        return ended

    async def _exchange(self, ended: _Try[Form], member: Member, path: str, body: bytes) -> HttpAnswer | None:
        """Send and receive. A link whose answer did not come is closed: it could be taken for the next one's."""
        link: HttpLink | None = None
        answer: HttpAnswer | None = None
        try:
            link = await member.take()
            ended.has_sent = True
            answer = await link.ask(path, body, self.headers())
        except RocketLakeError as error:
            ended.reason = error.what
        finally:
            if link is not None and answer is not None:
                member.give_back(link)
            elif link is not None:
                link.close()
        return answer

    def _believe(
        self, ended: _Try[Form], member: Member, answer: HttpAnswer, form: type[Form], known_revision: int
    ) -> None:
        try:
            read = read_answer(answer.body, form)
        except ProtocolError as error:
            ended.reason = error.what
            return
        if not isinstance(read, Authenticated):  # a token is tried out
            ended.reason = self.freshness.judge(read.header, known_revision)
        if ended.reason:
            self._warnings.warn(member.name, "an answer of etcd's member %s is dropped: %s", member.name, ended.reason)
            member.close()
        else:
            ended.answer = read

    def _refused(self, ended: _Try[Form], answer: HttpAnswer) -> None:
        failure = read_failure(answer.body)
        if failure is None:
            ended.reason = f"status {answer.status}, {answer.body[:200]!r}"
            return
        ended.reason = failure.message or f"code {failure.number}"
        ended.refusal = refusal_of(failure.number, failure.message)
