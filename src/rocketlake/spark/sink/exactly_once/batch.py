"""One batch at the driver: one decision, then the ends of all its half messages.

Owns        the order of these steps, also of a driver that finds what another one left.
Must not know   how the decision is kept, how half messages are ended, Spark's classes.

    nothing decided          write `commit` with the lists of this attempt, read which record was the first one
    decided                  end all half messages of the decision; roll back our own, if it is another's
    ended                    write `done`: half messages that brokers still ask about are rolled back

A batch is visible at once or never: no half message of it is ended as committed before the decision lies in the topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.codec.sequence_mark import OTHER_ROWS_HINT
from rocketlake.spark.sink.exactly_once.ends import Ends
from rocketlake.spark.sink.exactly_once.journal import Journal, Standing
from rocketlake.spark.sink.exactly_once.records import ListPlace, Record, attempt_of
from rocketlake.spark.sink.sending import WriteFailed

__all__ = ["Attempt", "BatchEnd"]

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the tasks of one attempt wrote. `rows`: of their input; `born_ms`: of the first half message, 0 without."""

    batch: int
    lists: Sequence[ListPlace] = ()
    rows: int = 0
    messages: int = 0
    born_ms: int = 0

    @property
    def name(self) -> str:
        """The attempt in the journal."""
        return attempt_of(self.lists)


class BatchEnd:
    """Ends batches of one query. Errors: WriteFailed."""

    def __init__(self, journal: Journal, ends: Ends, *, batch_timeout_ms: int) -> None:
        self._journal = journal
        self._ends = ends
        self._timeout_ms = batch_timeout_ms

    async def commit(self, attempt: Attempt) -> Record:
        """Make the batch visible; returns the decision. On return every message of it is in its topic."""
        journal, batch = self._journal, attempt.batch
        standing = await journal.standing(batch)
        is_ours = standing.decision is None
        if is_ours:
            self._check_young(attempt)
            await journal.add(self._record("commit", attempt, standing))
            standing = await journal.standing(batch)
        decision = standing.decision
        if decision is None:
            raise WriteFailed(
                f"this attempt to write batch {batch} was aborted before it was committed",
                hint="look for another driver of this query and stop one of them, then start the query again",
            )
        if decision.attempt != attempt.name:
            is_ours = False
            await self._roll_back(attempt)
        if not standing.is_done:
            for place in decision.lists:
                await self._ends.commit(await journal.read_list(place), may_be_sent=not is_ours)
            await journal.add(self._record("done", attempt, standing))
        if decision.rows != attempt.rows:
            raise WriteFailed(
                f"batch {batch} of query {journal.query} was committed with {decision.rows} rows before, now it has"
                f" {attempt.rows}: what is in the topic stays, and the other rows are not written",
                hint=OTHER_ROWS_HINT,
            )
        return decision

    async def abort(self, attempt: Attempt) -> bool:
        """Give an attempt up, if it is not decided; True if its half messages are gone."""
        if not attempt.lists:
            return True
        journal = self._journal
        standing = await journal.standing(attempt.batch)
        if standing.decision is None:
            await journal.add(self._record("abort", attempt, standing))
            standing = await journal.standing(attempt.batch)
        if standing.decision is not None and standing.decision.attempt == attempt.name:
            return False
        await self._roll_back(attempt)
        return True

    async def _roll_back(self, attempt: Attempt) -> None:
        """What is not reached brokers ask about, and roll back once the batch is done."""
        for place in attempt.lists:
            try:
                await self._ends.roll_back(await self._journal.read_list(place))
            except RocketLakeError as error:
                _log.warning("rocketmq sink: half messages of batch %d wait for questions: %s", attempt.batch, error)

    def _record(self, kind: str, attempt: Attempt, standing: Standing) -> Record:
        lists = list(attempt.lists) if kind == "commit" else []
        return Record(
            kind,  # type: ignore[arg-type]
            self._journal.query,
            attempt.batch,
            attempt.name,
            standing.seen,
            attempt.rows,
            attempt.messages,
            lists,
        )

    def _check_young(self, attempt: Attempt) -> None:
        """A broker gives up old half messages; a decision about those would be a lie."""
        age_ms = self._journal.calls.client.clock.now_ms() - attempt.born_ms
        if attempt.born_ms and age_ms > self._timeout_ms:
            raise WriteFailed(
                f"batch {attempt.batch} took {age_ms / 1000:.0f} s from its first message to its decision, more than"
                f" 'batchTimeoutMs' ({self._timeout_ms / 1000:.0f} s) allows; nothing of it is visible",
                hint="set 'batchTimeoutMs' higher, or make batches smaller ('maxOffsetsPerTrigger')",
            )
