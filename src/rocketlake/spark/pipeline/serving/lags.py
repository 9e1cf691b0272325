"""How far the tables are behind: Spark's reports of each turn, and between turns what the brokers say.

Owns        the lags of the topics that are served, the failed ones too.
Must not know   turns, how lags are shown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.progress.lag import Offsets, Report
from rocketlake.spark.progress.listener import LagListener
from rocketlake.spark.progress.totals import Lag

__all__ = ["TableLags"]


class TableLags(LagListener):
    """Keyed by topic, which is the name of its query. A topic is active unless its last turn failed."""

    def __init__(self, *, metrics_port: int | None = None) -> None:
        self._served: dict[str, tuple[str, int]] = {}
        super().__init__(metrics_port=metrics_port)

    def lags(self) -> dict[str, Lag]:
        """Topic -> its lag, of the topics that are served now."""
        known = super().lags()
        return {
            topic: replace(known.get(topic) or Lag("", topic), is_active=not error, error=error, losses=losses)
            for topic, (error, losses) in self._served.copy().items()
        }

    def serve(self, topic: str, *, error: str = "", losses: int | None = None) -> None:
        """Show this topic. `losses` None: as many as before."""
        before = self._served.get(topic, ("", 0))
        self._served[topic] = error, before[1] if losses is None else losses

    def forget(self, topic: str) -> None:
        """Show it no more."""
        self._served.pop(topic, None)

    def seen(self, topic: str, reached: Mapping[MessageQueue, int], newest: Mapping[MessageQueue, int]) -> None:
        """Between two turns: the table has come to `reached`, the topic to `newest`."""
        with self._lock:
            totals = next((each for each in self._totals.values() if each.lag.name == topic), None)
            if totals is None:
                return
            now_ms = int(time.time() * 1000)
            end, latest = _offsets({queue: reached.get(queue, 0) for queue in newest}), _offsets(newest)
            totals.add(Report(totals.lag.query, topic, "", -1, now_ms, totals.lag.batch_ms, 0, end, latest))


def _offsets(offsets: Mapping[MessageQueue, int]) -> Offsets:
    return {("0", queue.topic, queue.broker_name, str(queue.queue_id)): end for queue, end in offsets.items()}
