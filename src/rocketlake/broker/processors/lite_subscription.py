"""LITE_SUBSCRIPTION_CTL: which lite topics a client subscribes to.

Owns        what each action does, the limits of subscriptions.
Must not know   how messages are handed out.

Departures from RocketMQ: an entry without a client, a group or a topic is refused, Apache passes it by; so is a group
that is bound to another topic, and each lite topic whose name no message can have.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketlake.broker.config import LiveConfig
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.lite.subscriptions import Subscriber, Subscriptions
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.group import GroupConfig
from rocketlake.model.lite import LITE_CHARS_MAX, LITE_QUOTA, LITE_QUOTA_DEFAULT, is_lite_name
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.lite import LiteAction, LiteSubscription, LiteSubscriptionBody
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LiteSubscriptions"]


class LiteSubscriptions:
    """Serves changes."""

    def __init__(
        self, config: LiveConfig, rights: LiteRights, subscriptions: Subscriptions, progress: LiteProgress
    ) -> None:
        self._config = config
        self._rights = rights
        self._subscriptions = subscriptions
        self._progress = progress

    def change(self, request: Request) -> Reply:
        """Make the changes, one after the other, up to the first that is refused."""
        entries = LiteSubscriptionBody.decode(request.body).subscription_set if request.body else []
        if not entries:
            return Reply(ResponseCode.ILLEGAL_OPERATION, remark="the body names no subscription")
        try:
            for entry in entries:
                self._change(entry)
        except Refused as refused:
            return Reply(refused.code, remark=str(refused))
        return Reply()

    def _change(self, entry: LiteSubscription) -> None:
        if not (entry.client_id.strip() and entry.group.strip() and entry.topic.strip()):
            raise Refused("a subscription names its client, group and topic", code=ResponseCode.ILLEGAL_OPERATION)
        found = self._subscriptions.find(entry.client_id, entry.group)
        if entry.action is LiteAction.COMPLETE_REMOVE:
            if found is not None:
                self._subscriptions.remove(found)
        elif entry.action is LiteAction.PARTIAL_REMOVE:
            if found is not None:
                self._subscriptions.take(found, entry.lite_topic_set)
        else:
            self._add(entry, found)

    def _add(self, entry: LiteSubscription, found: Subscriber | None) -> None:
        group = self._rights.subscribing(entry.topic, entry.group)
        given = set(entry.lite_topic_set)
        had = found.lites if found is not None and found.parent == entry.topic else set[str]()
        is_whole = entry.action is LiteAction.COMPLETE_ADD
        new = given - had
        self._check(group, new, len(given) if is_whole else len(had) + len(new), len(given) - len(had))
        subscriber = self._subscriptions.find_or_add(entry.client_id, entry.group, entry.topic)
        if is_whole:
            self._subscriptions.take(subscriber, had - given)
        self._subscriptions.add(subscriber, new)
        for lite in new:
            if entry.offset_option is not None and not is_whole:
                self._progress.begin_at(entry.group, entry.topic, lite, entry.offset_option)
        self.look(subscriber, new)

    def look(self, subscriber: Subscriber, lites: Collection[str]) -> None:
        """Have a subscriber read what is there of these lite topics."""
        has_more = self._progress.has_more
        ready = [lite for lite in lites if has_more(subscriber.group, subscriber.parent, lite)]
        if ready:
            subscriber.ready.update(dict.fromkeys(ready))
            self._subscriptions.wake(subscriber.key)

    def look_at_all(self) -> None:
        """All light queues are known now."""
        self._progress.lower_to_ends()
        for subscriber in self._subscriptions:
            self.look(subscriber, subscriber.lites)

    def _check(self, group: GroupConfig, new: Collection[str], of_client: int, more: int) -> None:
        wrong = next((lite for lite in new if not is_lite_name(lite)), None)
        if wrong is not None:
            raise Refused(
                f"the lite topic {wrong[:80]!r} is no name of one",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint=f"use 1 to {LITE_CHARS_MAX} letters, digits, - and _",
            )
        most = self._config.now.lite_subscriptions_max
        if more > 0 and self._subscriptions.count + more > most:
            raise Refused(
                f"{self._subscriptions.count} lite topics are subscribed to, {more} more are too many",
                code=ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                hint=f"raise maxLiteSubscriptionCount, which is {most}",
            )
        quota = int(group.attributes.get(LITE_QUOTA, LITE_QUOTA_DEFAULT))
        if new and 0 <= quota < of_client:
            raise Refused(
                f"a client of group {group.name} may subscribe to {quota} lite topics, not to {of_client}",
                code=ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                hint=f"unsubscribe from some, or `rocketlake group alter {group.name} --attribute +{LITE_QUOTA}=...`",
            )
