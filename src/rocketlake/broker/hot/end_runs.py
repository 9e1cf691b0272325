"""Ends of transactions in runs: when they may join a run of sends, and how they are noted.

Owns        the conditions under which every end takes the ordinary way.
Must not know   which ends are plain (plain_end.pyx), what a run stores.

An end in a run passes nobody: while ends of its link wait for the disk, or any ends for the ledger, it takes the
ordinary way, where it waits behind them.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.hot import plain_end, plain_topics
from rocketlake.broker.transaction.early_ends import EarlyEnds
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.net.request import Asker
from rocketlake.store import log_window
from rocketlake.store.message_store import MessageStore

__all__ = ["EndRuns"]

_HOW = (Standing.ROLLED_BACK, Standing.COMMITTED)
"""By "is it committed"."""


class EndRuns:
    """Lets ends into runs of sends (send_runs.py)."""

    def __init__(
        self, store: MessageStore, ledger: HalfLedger, ops: TransactionOps, early: EarlyEnds, cold: ColdRequests
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._ops = ops
        self._early = early
        self._cold = cold

    def kernel(self, topics: plain_topics.PlainTopics) -> plain_end.PlainEnds:
        """Takes plain ends; `topics`: those of the sends."""
        log = log_window.LogWindow(self._store.fetch.window)
        return plain_end.PlainEnds(topics, log, self._admit, self._ledger.stands_alone)

    def note(self, ended: Iterable[tuple[QueueOffset, bool]]) -> None:
        """The messages of a run are stored: note its ends (queue offset of the half message, is it committed).

        Those that are noted already stay as they are.
        """
        self._ops.end_alone([(half_offset, _HOW[is_committed]) for half_offset, is_committed in ended])

    def _admit(self, asker: Asker) -> tuple[int, PhysicalOffset] | None:
        if not self._early.may_pass or self._cold.holds_from(asker):
            return None
        return self._ops.room_bytes, self._store.deletions.until
