"""The errors that callers of the client can catch, besides those of base.errors.

Owns        the client's own error classes and the wording of the frequent ones.
Must not know   how requests are sent.

`RocketLakeError` is the base of all. A refusal by a broker is a `RemoteError` with its code; a broken link, or an
answer that does not come in time, is a `LinkError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.errors import LinkError, NotThereError, RemoteError, RocketLakeError, UsageError

__all__ = [
    "BatchFailed",
    "HandleExpired",
    "LinkError",
    "NoReply",
    "NoRoute",
    "NotRunning",
    "NotSafe",
    "RemoteError",
    "RocketLakeError",
    "SendFailed",
    "TooManySends",
    "UsageError",
]


_YOUNG = "; if it is there, wait: a name server that has just started hears of it within 30 s"
"""Brokers register each 30 s (registerNameServerPeriod)."""


class NoRoute(NotThereError):
    """The name server knows no broker that serves the topic, or none that takes messages for it (`is_read_only`)."""

    def __init__(
        self, topic: str, name_servers: Sequence[str], *, purpose: str = "send", is_read_only: bool = False
    ) -> None:
        self.topic = topic
        self.is_read_only = is_read_only
        where = "name server " + ";".join(name_servers)
        what = f"no route for topic {topic!r}"
        if is_read_only:
            what = f"topic {topic!r} takes no messages: it has no write permission"
            hint = f"give it back with `rocketlake topic alter {topic} --perm rw`, if that is meant"
        elif purpose == "send":
            hint = f"create it with `rocketlake topic create {topic}` or set autoCreateTopicEnable=true on the broker"
            hint += _YOUNG
        else:
            hint = f"create it with `rocketlake topic create {topic}`, or send a first message to it"
            hint += _YOUNG
        super().__init__(what, where=where, hint=hint)


class NotRunning(UsageError):
    """A call on a client that was not started yet, or was stopped."""

    def __init__(self, kind: str, group: str, *, is_over: bool = False) -> None:
        """`is_over`: it was stopped for good."""
        what, hint = "is not running", f"call `await start()` first, or use `async with {kind}(...)`"
        if is_over:
            what, hint = "was stopped", f"make a new {kind}: one that was stopped does not start again"
        super().__init__(f"{kind} of group {group!r} {what}", hint=hint)


class SendFailed(RocketLakeError):
    """No attempt to send was accepted; `attempts` names each broker tried and why it failed.

    `refusal`: why all of them were refused, if that is one reason; else None.
    """

    def __init__(
        self,
        topic: str,
        attempts: Sequence[tuple[str, BaseException]],
        *,
        timeout_ms: int,
        timed_out: bool,
        is_stopped: bool = False,
    ) -> None:
        """`is_stopped`: the client was stopped meanwhile."""
        self.topic = topic
        self.attempts = tuple(attempts)
        last = attempts[-1][1] if attempts else None
        codes = {getattr(error, "code", None) for _, error in attempts}
        self.refusal = last if isinstance(last, RemoteError) and len(codes) == 1 else None
        tried = "; ".join(f"{broker}: {_without_cure(error)}" for broker, error in self.attempts)
        tried = tried or "no attempt was made"
        what = f"message to topic {topic!r} was not sent"
        if timed_out:
            what += f" within {timeout_ms} ms"
        hint = "raise timeout_ms, or look at the broker" if timed_out else "look at the brokers named here"
        if self.refusal is not None and self.refusal.hint and not timed_out:
            hint = self.refusal.hint
        if is_stopped:
            what += " before the client was stopped"
            hint = "call `stop()` behind the last send"
        super().__init__(f"{what} ({tried})", hint=hint)


class NoReply(RocketLakeError):
    """A request is stored, and no answer to it came in time (Java's code 10006). `sent`: where it is stored."""

    def __init__(self, topic: str, sent: object, *, timeout_ms: int) -> None:
        self.topic = topic
        self.sent = sent
        super().__init__(
            f"the request to topic {topic!r} is stored, but no answer came within {timeout_ms} ms",
            hint="raise timeout_ms, or look whether the consumers that answer keep up: `rocketlake group show`;"
            " a late answer is dropped, and the request stays in its topic",
        )


def _without_cure(error: BaseException) -> str:
    """The text of an error without its cure, for use inside an error that names a cure of its own."""
    if not isinstance(error, RocketLakeError):
        return str(error)
    return f"{error.what} ({error.where})" if error.where else error.what


class BatchFailed(RocketLakeError):
    """A part of a batch was not sent. `sent`: results of the messages before that part; `__cause__`: why it failed."""

    def __init__(self, topic: str, sent: Sequence[object], total: int, error: RocketLakeError) -> None:
        self.topic = topic
        self.sent = tuple(sent)
        what = f"of {total} messages to topic {topic!r} the first {len(sent)} were sent, then: {error}"
        super().__init__(what, hint="send the rest again: messages[len(error.sent):]")


class NotSafe(RocketLakeError):
    """`count` messages are stored, but not yet flushed or copied as their broker asks: they may be lost."""

    def __init__(self, topic: str, count: int, status: str, *, where: str) -> None:
        """`status`: of the first of them, by its name; `where`: its place."""
        self.topic = topic
        self.count = count
        many = f"{count} messages are" if count > 1 else "the message is"
        super().__init__(
            f"{many} stored in {topic}, but not as safe as the broker asks: {_REASONS[status]} ({status})",
            where=where,
            hint="look at `rocketlake replicas list` and the log of the broker: a crash, or a change of the master, may"
            " take it back; send it again if it may come twice",
        )


_REASONS = {
    "FLUSH_DISK_TIMEOUT": "it was not on disk in time",
    "FLUSH_SLAVE_TIMEOUT": "too few replicas had it in time",
    "SLAVE_NOT_AVAILABLE": "too few replicas are connected",
}


class HandleExpired(RocketLakeError):
    """The time for which a popped message was handed out is over: it comes again, to any member of the group."""

    def __init__(self, topic: str, message_id: str, invisible_ms: int) -> None:
        super().__init__(
            f"message {message_id} of topic {topic!r} was handed out for {invisible_ms} ms, which are over",
            hint="raise invisible_ms of receive(), or give it renew=True; work that may be done twice must not harm",
        )


class TooManySends(UsageError):
    """More `send_nowait` calls are on their way than the producer's limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} sends are already on their way",
            hint="await send() instead of send_nowait(), or raise ProducerConfig.pending_sends_max",
        )
