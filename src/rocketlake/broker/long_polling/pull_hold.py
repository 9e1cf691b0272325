"""Where a pull waits until a message comes or its time is up.

Owns        the keys of held pulls, (topic, queue id); their position is the offset they asked for.
Must not know   requests, answers, subscriptions; how waiters are kept and resumed (held/wait_list.py).

Rule: a message wakes a pull when it lies at or behind the offset the pull asked for and passes its tag test
(RocketMQ's PullRequestHoldService). A woken pull reads again and is answered, even if it finds nothing.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.broker.held.wait_list import WaitList
from rocketlake.net.turns import Turns

__all__ = ["PullHold"]


class PullHold(WaitList[tuple[str, int]]):
    """All held pulls of a broker."""

    def __init__(self, clock: Clock, turns: Turns, held_max: int = 100_000, held_of_one_max: int | None = None) -> None:
        """`held_max`: pullThreadPoolQueueCapacity; `held_of_one_max`: heldPullsOfOneMax."""
        super().__init__("pull-hold", clock, turns, held_max, held_of_one_max)

    def is_awaited(self, topic: str, queue_id: int) -> bool:
        """True if a pull waits at this queue."""
        return self.has_waiters((topic, queue_id))

    def arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int) -> None:
        """A message with this tag code came into a queue, which ends at `max_offset` now."""
        self.reached((topic, queue_id), max_offset, tag_code)

    def wake_topic(self, topic: str) -> None:
        """Wake all pulls of a topic, because the topic is gone."""
        for queue in self.keys():
            if queue[0] == topic:
                self.wake(queue)

    def wake_all(self) -> None:
        """Wake all pulls."""
        for queue in self.keys():
            self.wake(queue)
