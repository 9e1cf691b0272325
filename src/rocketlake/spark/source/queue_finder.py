"""The queues of the chosen topics, by their routes; refreshed while a stream runs.

Owns        how often routes are asked for, the meaning of a missing route.
Must not know   offsets.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Brokers, TopicNames, of_each, with_retries
from rocketlake.spark.source.offsets import describe, describe_all
from rocketlake.spark.source.options import SourceOptions

__all__ = ["QueueFinder"]

log = get_logger(__name__)

_LOOK_SECONDS = 5.0
_IDLE_CALLS_PER_SECOND = 0.3
_MISSING_SECONDS_MAX = 90.0
_CALLS_OF_PATTERN = 2


class QueueFinder:
    """Queues of the chosen topics; `find` is cheap to call often."""

    def __init__(self, brokers: Brokers, options: SourceOptions) -> None:
        self._brokers = brokers
        self._options = options
        self._looked_at = float("-inf")
        self._routed_at: dict[str, float] = {}
        self._calls = 1
        self.queues: set[MessageQueue] = set()

    def find(self, *, is_idle: bool = False) -> set[MessageQueue]:
        """Queues by the routes, which are asked for every five seconds; while idle seldom enough to cost nothing."""
        now = self._brokers.monotonic()
        pause = max(_LOOK_SECONDS, self._calls / _IDLE_CALLS_PER_SECOND) if is_idle else _LOOK_SECONDS
        if now - self._looked_at >= pause:
            found = self._brokers.run(self._look(now))
            for queue in sorted(self.queues - found):
                log.warning("%s is not in the route any more; it is read on when it comes back", describe(queue))
            self.queues, self._looked_at = found, now
        return self.queues

    def require_all(self) -> set[MessageQueue]:
        """The queues to choose a start for: UsageError when assigned ones are missing, or no topic is there."""
        found = self.find()
        missing = self._options.topics.assigned - found
        if missing:
            at_hand = describe_all(found) if found else "none of them"
            raise UsageError(
                f"option 'assign' names queues that are not in the route: {describe_all(missing)}; there: {at_hand}",
                hint="start the broker if it is down, or name other queues; `rocketlake topic show` lists them",
            )
        if not found and not self._options.topics.pattern:
            raise UsageError(
                f"no queue of {self._options.topics} can be read",
                hint="let it be read: `rocketlake topic alter TOPIC --perm rw`",
            )
        return found

    async def _look(self, now: float) -> set[MessageQueue]:
        choice = self._options.topics
        topics: Collection[str] = choice.names
        if choice.pattern:
            names = await self._names()
            topics = choice.of_all(names.topics, names.reserved)
        found = await of_each(
            self._brokers,
            self._options,
            topics,
            lambda topic: f"asking the route of {topic}",
            lambda topic: self._queues_of(topic, now),
        )
        self._calls = len(topics) + (_CALLS_OF_PATTERN if choice.pattern else 0)
        return {queue for queues in found.values() for queue in choice.of_route(queues)}

    async def _names(self) -> TopicNames:
        return await with_retries(self._brokers, self._options, "asking for all topics", self._brokers.topics)

    async def _queues_of(self, topic: str, now: float) -> Collection[MessageQueue]:
        """Empty for a known topic whose route is missing for a short time: after a restart of a name server brokers
        register their routes within 30 s. A topic of a pattern may vanish."""
        try:
            found = await self._brokers.queues(topic)
        except UsageError:
            missed = now - self._routed_at.get(topic, float("-inf"))
            if (
                missed > _MISSING_SECONDS_MAX
                and not self._options.topics.pattern
                and (self._options.fail_on_data_loss or topic not in self._routed_at)
            ):
                raise
            return ()
        self._routed_at[topic] = now
        return found
