"""Upkeep of tables beside their turns: fewer files, fewer old commits and rows, nothing left behind by dead tasks.

Owns        the thread that does it, when a table is due, the order of the steps.
Must not know   how a table is changed (spark/lake/maintenance.py).
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.maintenance import clean, compact, drop_days_before, open_described
from rocketlake.spark.lake.table_schema import STORE_DAY
from rocketlake.spark.pipeline.serving.plan import ServePlan
from rocketlake.spark.pipeline.serving.table_turns import reason
from rocketlake.spark.places.location import Location

__all__ = ["Upkeep", "look_after"]

_log = get_logger(__name__)

_GRACE_SECONDS = 86_400
"""Files of a batch that is under way are younger."""


class Upkeep:
    """One thread takes the tables one after the other."""

    def __init__(self, plan: ServePlan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._begun: dict[str, float] = {}
        self._under_way: dict[str, Future[str]] = {}

    def is_due(self, topic: str, now: float) -> bool:
        """True if the time of this table has come; `now`: monotonic seconds."""
        begun = self._begun.get(topic)
        return topic not in self._under_way and (begun is None or now >= begun + self._plan.upkeep_seconds)

    def take(self, topic: str, location: Location, keep_days: int, now: float) -> None:
        """Look after this table as soon as the thread is free."""
        self._begun[topic] = now
        self._under_way[topic] = self._thread.submit(look_after, location, self._plan, keep_days)

    def report(self) -> None:
        """Say what has been done, and what could not be done: it is tried again when the table is due again."""
        for topic, work in list(self._under_way.items()):
            if not work.done():
                continue
            del self._under_way[topic]
            error = work.exception()
            if error is not None and not isinstance(error, RocketLakeError | OSError):
                _log.error("looking after the table of topic %s", topic, exc_info=error)
            # Of one table, whatever a library or a store makes of it: the others go on.
            done = f"cannot be looked after: {reason(error)}" if error is not None else work.result()
            if done:
                self._say(f"table of topic {topic}: {done}")

    def is_idle(self) -> bool:
        """True if no table is being looked after."""
        return not self._under_way

    def close(self) -> None:
        """Wait for the table at work; the others are left for the next start."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def look_after(location: Location, plan: ServePlan, keep_days: int = 0) -> str:
    """Compact, drop old days, expire and clean a table and its dead letters; what was done, in words."""
    parts = []
    for where in (location, location.sibling("__dlq")):
        if Descriptions(where).latest() is None:
            continue
        compacted = compact(where, plan.file_bytes, dry_run=False, progress=_quiet)
        dropped = _drop_old_days(where, keep_days)
        table, _ = open_described(where)
        expired = table.expire(int((time.time() - plan.history_seconds) * 1000), dry_run=False, progress=_quiet)
        cleaned = clean(
            where, grace_seconds=_GRACE_SECONDS, abandoned=False, dry_run=False, now=time.time(), progress=_quiet
        )
        if compacted.rewrites or dropped or expired or cleaned:
            what = f"{compacted.files_before} -> {compacted.files_after} files, {dropped} rows dropped"
            parts.append(f"{what}, {expired} expired, {cleaned} cleaned in {where}")
    return "; ".join(parts)


def _drop_old_days(where: Location, keep_days: int) -> int:
    if not keep_days or STORE_DAY not in open_described(where)[1].partition_by:
        return 0
    day = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=keep_days)
    return drop_days_before(where, day, dry_run=False, progress=_quiet)


def _quiet(_line: str) -> None:
    pass
