"""Where a pop waits until a message comes or its time is up.

Owns        the keys of held pops, (topic, group, queue id), and the topics whose messages wake them.
Must not know   requests, answers, subscriptions; how waiters are kept and resumed (held/wait_list.py).

Rule (RocketMQ's PopLongPollingService): a message wakes one waiter of each group that asks for any queue of the topic,
and one that asks for its queue: those that have waited longest. A message of a retry topic wakes its group only.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.broker.held.wait_list import Waiter, WaitList
from rocketlake.broker.rights.pop import PopAsked
from rocketlake.model.pop import ANY_QUEUE, RETRY_V1, RETRY_V2, pop_retry_topic
from rocketlake.net.turns import Turns

__all__ = ["PopHold", "key_of"]

PopKey = tuple[str, str, int]
"""Topic, group, queue id; the queue id is ANY_QUEUE for a pop that takes any."""

_TOPICS_OF_KEY = 3
"""A topic, and its retry topic of either form."""
_TOPICS_KEPT = 1024


def key_of(asked: PopAsked) -> PopKey:
    """Where a pop, or a notification, waits that asks for this."""
    return asked.topic, asked.consumer_group, max(asked.queue_id, ANY_QUEUE)


class PopHold(WaitList[PopKey]):
    """All held pops of a broker, or all notifications."""

    def __init__(self, name: str, clock: Clock, turns: Turns, held_max: int, held_of_one_max: int) -> None:
        """`held_max`: maxPopPollingSize; `held_of_one_max`: heldPullsOfOneMax."""
        super().__init__(name, clock, turns, held_max, held_of_one_max)
        self._topics: dict[str, dict[PopKey, None]] = {}
        """By topic: the keys that a message of it wakes. Those without waiters go when a message comes, or when they
        are many: a pop that waits again and again costs nothing here."""

    async def start(self) -> None:
        """Begin to hold, also after a stop."""
        self.is_closed = False
        await super().start()

    def hold(self, waiter: Waiter[PopKey], hold_ms: int) -> None:
        """Keep the waiter for at most `hold_ms`."""
        super().hold(waiter, hold_ms)
        if len(self._topics) > 2 * _TOPICS_OF_KEY * len(self._keys) + _TOPICS_KEPT:
            self._topics.clear()
            for key in self._keys:
                self._await(key)
        self._await(waiter.key)

    def _await(self, key: PopKey) -> None:
        topic, group, _ = key
        for name in (topic, pop_retry_topic(topic, group, RETRY_V1), pop_retry_topic(topic, group, RETRY_V2)):
            self._topics.setdefault(name, {})[key] = None

    def is_awaited(self, topic: str, _queue_id: int) -> bool:
        """True if a message of this queue may wake a pop."""
        return topic in self._topics

    def arrived(self, topic: str, queue_id: int, _max_offset: int, tag_code: int) -> None:
        """A message with this tag code came into a queue."""
        keys = self._topics.get(topic)
        if keys is None:
            return
        for key in list(keys):
            if not self.has_waiters(key):
                self._drop(topic, key)
            elif topic != key[0]:
                self.wake_one(key)
            elif key[2] in (ANY_QUEUE, queue_id):
                self.wake_one(key, tag_code)

    def wake_all(self) -> None:
        """Wake all pops."""
        for key in self.keys():
            self.wake(key)

    def _drop(self, topic: str, key: PopKey) -> None:
        keys = self._topics[topic]
        del keys[key]
        if not keys:
            del self._topics[topic]
