"""A consumer, and a producer of transactions, as their client instance sees them.

Owns        the ConsumerMember protocol, the signature of the function that answers about transactions.
Must not know   push or pull.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.client import ConsumeDirectlyResult, ConsumerRunningInfo
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.transaction import CheckTransactionHeader

Answer = Callable[[Command], None]
"""Sends a one-way request to the broker that asked."""
TransactionCheck = Callable[[CheckTransactionHeader, StoredMessage, Answer], None]
"""(question, half message, answer): find out how a transaction ended (code 39)."""
DirectConsume = Callable[[StoredMessage], Awaitable[ConsumeDirectlyResult]]


class ConsumerMember(Protocol):
    """The methods of a consumer that its client instance calls: for heartbeats, timers and requests of brokers."""

    rebalance_soon: Callable[[], None]
    """The members or the route changed."""
    persist_offsets: Callable[[], Awaitable[None]]
    """Save the offsets that are safe to commit."""
    reset_offsets: Callable[[str, Mapping[MessageQueue, int]], Awaitable[None]]
    """An operator moved the group in a topic (code 220)."""
    lite_taken: Callable[[str], object]
    """A lite topic is another client's of the group (code 200073)."""
    consume_directly: DirectConsume | None
    """Run the listener on one message for an operator (code 309); None without a listener."""

    @property
    def group(self) -> str:
        """The consumer group."""

    @property
    def topics(self) -> Collection[str]:
        """Topics whose routes must be kept fresh."""

    def registration(self) -> ConsumerEntry:
        """This consumer's part of the heartbeat."""

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """Offsets known in memory (code 221)."""

    def running_info(self) -> ConsumerRunningInfo:
        """The state of this consumer (code 307)."""
