"""The history of epochs of this broker's log, for administrators (mqadmin getBrokerEpoch), and marks of its records.

Owns        the answers.
Must not know   how epochs are kept and begun, roles, what a replica makes of a mark.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.cluster.role import Role
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.replicas import OPEN_END, EpochCache, EpochSpan
from rocketlake.protocol.headers.replicas import RecordMarkHeader, RecordMarkReplyHeader
from rocketlake.replication.epochs.history import EpochHistory
from rocketlake.replication.epochs.marks import mark_at
from rocketlake.store.commit_log import CommitLog

__all__ = ["EpochAnswer"]


class EpochAnswer:
    """Serves the requests."""

    def __init__(
        self, role: Role, history: Callable[[], EpochHistory], log_end: Callable[[], PhysicalOffset], log: CommitLog
    ) -> None:
        """`history`, `log_end`: as they are now."""
        self._role = role
        self._history = history
        self._log_end = log_end
        self._log = log

    def epochs(self, _request: Request) -> Reply:
        """GET_BROKER_EPOCH_CACHE: each epoch ends where the next one starts."""
        epochs = self._history().epochs
        ends = [*(epoch.start for epoch in epochs[1:]), OPEN_END]
        spans = [
            EpochSpan(epoch=epoch.number, start_offset=epoch.start, end_offset=end)
            for epoch, end in zip(epochs, ends, strict=False)
        ]
        answer = EpochCache(
            broker_id=self._role.broker_id,
            broker_name=self._role.broker_name,
            cluster_name=self._role.cluster_name,
            epochs=spans,
            max_offset=self._log_end(),
        )
        return Reply(body=answer.encode())

    def record_mark(self, request: Request) -> Reply:
        """GET_RECORD_MARK."""
        offset = PhysicalOffset(request.header(RecordMarkHeader).offset)
        return Reply(header=RecordMarkReplyHeader(mark=mark_at(self._log, offset)))
