"""Functions of the user that run before and after a send, and before and after a listener call.

Owns        the hook signatures and running them so that a broken hook never loses a message.
Must not know   what hooks do (trace and metrics are hooks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

from rocketlake.base.logs import get_logger
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.calls.send import SendResult
from rocketlake.client.calls.transaction import TransactionEnd
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue

log = get_logger(__name__)
Event = TypeVar("Event")


@dataclass(slots=True)
class Sending:
    """One send, all its attempts together: of one message, or of a batch.

    Its hook runs before the messages are encoded: what it puts into their properties is sent along. `results` are those
    of the messages, in order, once they are known.
    """

    group: str
    messages: Sequence[Message]
    results: Sequence[SendResult] = ()


@dataclass(slots=True)
class SendEvent:
    """One attempt of a send: of one message, or of a part of a batch.

    Before the attempt `error` and `result` are None and `latency_ms` is 0; after it they tell how it went.
    """

    group: str
    messages: Sequence[Message]
    queue: MessageQueue
    address: str
    latency_ms: float = 0.0
    error: BaseException | None = None
    result: SendResult | None = None

    @property
    def message(self) -> Message:
        """The first message."""
        return self.messages[0]


@dataclass(slots=True)
class EndEvent:
    """A broker was told the end of a transaction; `is_checked`: because it asked. `address`: of the broker."""

    group: str
    message: Message
    message_id: str
    address: str
    end: TransactionEnd
    is_checked: bool
    region: str = ""
    trace_on: bool = True


@dataclass(slots=True)
class ConsumeEvent:
    """One listener call. Before the call `is_success` is None.

    After it, the first `done` messages count as consumed, and `error` is the exception that the listener raised.
    """

    group: str
    messages: Sequence[StoredMessage]
    queue: MessageQueue
    latency_ms: float = 0.0
    is_success: bool | None = None
    done: int = 0
    error: BaseException | None = None


@dataclass(slots=True)
class DamageEvent:
    """A record that the group cannot read. `is_dead_letter`: its body, as stored, is a dead letter now."""

    group: str
    record: DamagedRecord
    is_dead_letter: bool


@dataclass(slots=True)
class Hooks:
    """Lists to append to; each hook is a plain function that must not block.

    `around_send`, `around_consume`: functions that return a context manager. It is entered before the messages are
    encoded, or before the listener runs, and left with the result or the error.
    """

    before_send: list[Callable[[SendEvent], None]] = field(default_factory=list)
    after_send: list[Callable[[SendEvent], None]] = field(default_factory=list)
    around_send: list[Callable[[Sending], AbstractContextManager[object]]] = field(default_factory=list)
    after_end: list[Callable[[EndEvent], None]] = field(default_factory=list)
    before_consume: list[Callable[[ConsumeEvent], None]] = field(default_factory=list)
    after_consume: list[Callable[[ConsumeEvent], None]] = field(default_factory=list)
    around_consume: list[Callable[[ConsumeEvent], AbstractContextManager[object]]] = field(default_factory=list)
    on_damage: list[Callable[[DamageEvent], None]] = field(default_factory=list)


def run_hooks(hooks: Sequence[Callable[[Event], None]], event: Event) -> None:
    """Run each hook; an exception is logged and goes no further."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            log.exception("hook %r failed", hook)


NO_HOOKS = nullcontext()
"""To be entered where there is no hook: it costs less than a new one each time."""


@contextmanager
def around(hooks: Sequence[Callable[[Event], AbstractContextManager[object]]], event: Event) -> Iterator[Event]:
    """Enter each hook's context, leave them in reverse order; an exception of theirs is logged and goes no further."""
    with ExitStack() as contexts:
        for hook in hooks:
            try:
                context = hook(event)
                context.__enter__()
            except Exception:
                log.exception("hook %r failed", hook)
            else:
                contexts.push(_leaving(context))
        yield event


def _leaving(context: AbstractContextManager[object]) -> Callable[..., None]:
    """Leaves the context; neither raises an error of its own nor swallows one."""

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            context.__exit__(kind, error, trace)
        except Exception as problem:
            if problem is not error:
                log.exception("hook context %r failed", context)

    return leave
