"""Transactions without an end: what the brokers list, and having one checked again.

Owns        the requests for them, the counts and the oldest ones.
Must not know   how a broker keeps half messages, how it asks about them.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.base.errors import UsageError
from rocketlake.client.calls.answer import ask
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.topic import TRANSACTION_CHECK_MAX_TOPIC
from rocketlake.protocol.bodies.transaction import HalfMessage, HalfMessages
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.transaction import HalfMessagesHeader, ResumeCheckHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["OpenCount", "OpenTransactions", "check_again", "open_transactions"]

_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class OpenCount:
    """The transactions of a group at one broker. `oldest_ms`: epoch ms at which the oldest one began."""

    total: int = 0
    producers: int = 0
    checks: int = 0
    oldest_ms: int = sys.maxsize

    def take(self, half: HalfMessage) -> None:
        """Note one."""
        self.total += 1
        self.producers = half.producers
        self.checks = max(self.checks, half.checked)
        self.oldest_ms = min(self.oldest_ms, half.born)


class OpenTransactions:
    """What the brokers listed: counts of all transactions, and the oldest ones."""

    def __init__(self, limit: int) -> None:
        """`limit`: so many of the oldest are kept; all are counted."""
        self.total = 0
        self.counts: dict[tuple[str, str], OpenCount] = {}
        """By (group, broker)."""
        self._limit = limit
        self._oldest: list[tuple[int, int, str, HalfMessage]] = []
        """A heap, the youngest first, of equal ones the last: (-born, -number, broker, transaction)."""
        self._names: set[tuple[str, int]] = set()

    def take(self, broker: str, half: HalfMessage) -> None:
        """Note one; the same one may come again."""
        if (broker, half.name) in self._names:
            return
        if half.name >= 0:
            self._names.add((broker, half.name))
        self.total += 1
        self.counts.setdefault((half.group, broker), OpenCount()).take(half)
        heapq.heappush(self._oldest, (-half.born, -self.total, broker, half))
        if len(self._oldest) > self._limit:
            heapq.heappop(self._oldest)

    def oldest(self) -> list[tuple[str, HalfMessage]]:
        """(broker, transaction), the oldest first."""
        return [(broker, half) for _, _, broker, half in sorted(self._oldest, reverse=True)]


async def open_transactions(cluster: Cluster, header: HalfMessagesHeader, limit: int) -> OpenTransactions:
    """Those that the header asks for, of all brokers. Raises LinkError, RemoteError."""
    found = OpenTransactions(limit)
    for broker, address in (await cluster.masters()).items():
        async for half in _listed(cluster, address, header):
            found.take(broker, half)
    return found


async def _listed(cluster: Cluster, address: str, header: HalfMessagesHeader) -> AsyncIterator[HalfMessage]:
    """All that one broker lists."""
    header.offset = 0
    while True:
        command = Command.request(RequestCode.GET_HALF_MESSAGES, header)
        answer = HalfMessages.decode((await ask(cluster.net, address, command, _TIMEOUT_MS)).body_bytes)
        for half in answer.halves:
            yield half
        if not answer.next_offset:
            return
        header.offset = answer.next_offset


async def check_again(cluster: Cluster, message_id: str) -> None:
    """Have a transaction that was given up checked again. UsageError: no master of the cluster gave this id."""
    host, port, _ = parse_offset_message_id(message_id)
    address = f"{host}:{port}"
    if address not in (await cluster.masters()).values():
        hint = "take the id that `rocketlake transaction list --given-up` prints now"
        raise UsageError(f"no master of this cluster has the address {address}", hint=hint)
    header = ResumeCheckHeader(msg_id=message_id, topic=TRANSACTION_CHECK_MAX_TOPIC)
    await ask(cluster.net, address, Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))
