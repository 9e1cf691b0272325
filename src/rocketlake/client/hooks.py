"""Functions of the user that run before and after a send, and before and after a listener call.

Owns        the hook signatures and running them so that a broken hook never loses a message.
Must not know   what hooks do (trace and metrics are hooks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rocketlake.base.logs import get_logger
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue

log = get_logger(__name__)
Event = TypeVar("Event")


@dataclass(slots=True)
class SendEvent:
    """One send. Before the send `error` is None and `latency_ms` is 0; after the send both tell how it went."""

    group: str
    message: Message
    queue: MessageQueue
    address: str
    latency_ms: float = 0.0
    error: BaseException | None = None


@dataclass(slots=True)
class ConsumeEvent:
    """One listener call. Before the call `is_success` is None."""

    group: str
    messages: Sequence[StoredMessage]
    queue: MessageQueue
    latency_ms: float = 0.0
    is_success: bool | None = None


@dataclass(slots=True)
class DamageEvent:
    """A record that the group cannot read. `is_dead_letter`: its body, as stored, is a dead letter now."""

    group: str
    record: DamagedRecord
    is_dead_letter: bool


@dataclass(slots=True)
class Hooks:
    """Lists to append to; each hook is a plain function that must not block."""

    before_send: list[Callable[[SendEvent], None]] = field(default_factory=list)
    after_send: list[Callable[[SendEvent], None]] = field(default_factory=list)
    before_consume: list[Callable[[ConsumeEvent], None]] = field(default_factory=list)
    after_consume: list[Callable[[ConsumeEvent], None]] = field(default_factory=list)
    on_damage: list[Callable[[DamageEvent], None]] = field(default_factory=list)


def run_hooks(hooks: Sequence[Callable[[Event], None]], event: Event) -> None:
    """Run each hook; an exception is logged and goes no further."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            log.exception("hook %r failed", hook)
