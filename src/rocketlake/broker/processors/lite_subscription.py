"""LITE_SUBSCRIPTION_CTL: which lite topics a client subscribes to.

Owns        what each action does, the limits of subscriptions, to whom lite topics of exclusive groups belong.
Must not know   how messages are handed out.

In an exclusive group a lite topic belongs to one client. A client that subscribes to it takes it from the other; one
that says its whole set, as after a while each does, takes only what is free. Who has lost a lite topic is told so, and
again with each whole set that still names it: the word may have been lost (docs/decisions/0052).

Departures from RocketMQ: an entry without a client, a group or a topic is refused, Apache passes it by; so is a group
that is bound to another topic, and each lite topic whose name no message can have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.lite.subscriptions import EVERYTHING, Subscriber, Subscriptions
from rocketlake.broker.lite.wildcards import ALL_CLIENTS, WildcardGroups
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.group import GroupConfig
from rocketlake.model.lite import (
    LITE_CHARS_MAX,
    LITE_EXCLUSIVE,
    LITE_MODEL,
    LITE_QUOTA,
    LITE_QUOTA_DEFAULT,
    LITE_RESET_EXCLUSIVE,
    LITE_RESET_UNSUBSCRIBE,
    LITE_WILDCARD,
    is_lite_name,
)
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.lite import LiteAction, LiteOffset, LiteSubscription, LiteSubscriptionBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.lite import NotifyUnsubscribeLiteHeader, PopLiteHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LiteSubscriptions"]

_FIRST = LiteOffset(value=1)
_CLIENT_ID_MAX = 255
_TOLD_MAX = 1000
"""Lite topics that one change tells other clients of; of the rest they hear when they say their whole set."""


class LiteSubscriptions:
    """Serves changes."""

    def __init__(
        self,
        config: LiveConfig,
        rights: LiteRights,
        subscriptions: Subscriptions,
        wildcards: WildcardGroups,
        progress: LiteProgress,
        client_ids: ClientIds,
    ) -> None:
        self._config = config
        self._rights = rights
        self._subscriptions = subscriptions
        self._wildcards = wildcards
        self._progress = progress
        self._client_ids = client_ids

    def change(self, request: Request) -> ReplySteps:
        """Make the changes, one after the other, up to the first that is refused."""
        entries = LiteSubscriptionBody.decode(request.body).subscription_set if request.body else []
        if not entries:
            return Reply(ResponseCode.ILLEGAL_OPERATION, remark="the body names no subscription")
        try:
            for place, entry in enumerate(entries):
                if place:
                    yield
                self._change(entry, request)
        except Refused as refused:
            return Reply(refused.code, remark=str(refused))
        return Reply()

    def _change(self, entry: LiteSubscription, request: Request) -> None:
        if not (entry.client_id.strip() and entry.group.strip() and entry.topic.strip()):
            raise Refused("a subscription names its client, group and topic", code=ResponseCode.ILLEGAL_OPERATION)
        self._client_ids.check(request.user, entry.client_id)
        found = self._subscriptions.find(entry.client_id, entry.group)
        if entry.action is LiteAction.COMPLETE_REMOVE:
            if found is not None:
                self._subscriptions.remove(found)
        elif entry.action is LiteAction.PARTIAL_REMOVE:
            if found is not None:
                self._take(found, found.lites.intersection(entry.lite_topic_set))
        else:
            self._add(entry, found, request)

    def _take(self, subscriber: Subscriber, lites: Collection[str]) -> None:
        self._subscriptions.take(subscriber, lites)
        if self._rights.attribute(subscriber.group, LITE_RESET_UNSUBSCRIBE) == "true":
            for lite in lites:
                self._progress.begin_at(subscriber.group, subscriber.parent, lite, _FIRST)

    def _add(self, entry: LiteSubscription, found: Subscriber | None, request: Request) -> None:
        if len(entry.client_id) > _CLIENT_ID_MAX:
            raise Refused(
                f"the client id {entry.client_id[:80]!r}... has {len(entry.client_id)} characters",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint=f"give the client an id of at most {_CLIENT_ID_MAX}",
            )
        self._client_ids.claim(request.user, entry.client_id)
        group = self._rights.subscribing(entry.topic, entry.group)
        takes_all = LITE_WILDCARD in group.attributes
        if takes_all and entry.action is LiteAction.PARTIAL_ADD:
            raise Refused(
                f"group {group.name} gets all lite topics of {entry.topic}, and its clients subscribe to none of them",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint=f"just receive, or `rocketlake group alter {group.name} --attribute -{LITE_WILDCARD}`",
            )
        given = {EVERYTHING} if takes_all else set(entry.lite_topic_set)
        had = found.lites if found is not None and found.parent == entry.topic else set[str]()
        is_whole = entry.action is LiteAction.COMPLETE_ADD
        new = given - had
        after = len(given) if is_whole else len(had) + len(new)
        if not takes_all:
            _check_names(new)
        self._check(group, new, after, after - len(had))
        if entry.offset_option is not None and not is_whole:
            self._progress.check_option(entry.offset_option)
        subscriber = self._subscriptions.find_or_add(entry.client_id, entry.group, entry.topic)
        subscriber.asker = request.asker
        if group.attributes.get(LITE_MODEL) == LITE_EXCLUSIVE and not takes_all:
            if is_whole:
                given = self._leave_to_others(subscriber, given)
                new = given - had
            else:
                self._take_from_others(subscriber, given, group)
        self._subscriptions.add(subscriber, new)
        self._subscriptions.take(subscriber, had - given if is_whole else ())
        for lite in new:
            if entry.offset_option is not None and not is_whole:
                self._progress.begin_at(entry.group, entry.topic, lite, entry.offset_option)
        self.look(subscriber, new)

    def _leave_to_others(self, subscriber: Subscriber, lites: Collection[str]) -> set[str]:
        """Those that are no other client's; it is told of the rest."""
        lost = {lite for lite in lites if self._subscriptions.others(subscriber, lite)}
        _tell((subscriber, lite) for lite in lost)
        return set(lites) - lost

    def _take_from_others(self, subscriber: Subscriber, lites: Collection[str], group: GroupConfig) -> None:
        lost = [(other, lite) for lite in lites for other in self._subscriptions.others(subscriber, lite)]
        for other, lite in lost:
            self._subscriptions.take(other, (lite,))
            if group.attributes.get(LITE_RESET_EXCLUSIVE) == "true":
                self._progress.begin_at(subscriber.group, subscriber.parent, lite, _FIRST)
        _tell(lost)

    def join(self, header: PopLiteHeader, request: Request) -> None:
        """A client of a wildcard group asks for messages: it subscribes to all lite topics by that. Refused."""
        found = self._subscriptions.find(header.client_id, header.consumer_group)
        if found is None or found.parent != header.topic or EVERYTHING not in found.lites:
            entry = LiteSubscription(
                action=LiteAction.COMPLETE_ADD,
                client_id=header.client_id,
                group=header.consumer_group,
                topic=header.topic,
            )
            self._add(entry, found, request)

    def look(self, subscriber: Subscriber, lites: Collection[str]) -> None:
        """Have a subscriber read what is there of these lite topics."""
        has_more = self._progress.has_more
        ready = [lite for lite in lites if has_more(subscriber.group, subscriber.parent, lite)]
        if ready:
            subscriber.ready.update(dict.fromkeys(ready))
            self._subscriptions.wake(subscriber.key)

    def look_anew(self, subscriber: Subscriber) -> None:
        """Have a subscriber read what is there of all that it subscribes to."""
        self.look(subscriber, subscriber.lites)
        if EVERYTHING in subscriber.lites:
            self._wildcards.look_anew(subscriber.group)

    def look_at_all(self) -> None:
        """All light queues are known now."""
        self._progress.lower_to_ends()
        self._wildcards.look_anew()
        for subscriber in self._subscriptions:
            self.look(subscriber, subscriber.lites)
            if EVERYTHING in subscriber.lites:
                self._subscriptions.wake((ALL_CLIENTS, subscriber.group))

    def _check(self, group: GroupConfig, new: Collection[str], of_client: int, more: int) -> None:
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


def _check_names(lites: Iterable[str]) -> None:
    wrong = next((lite for lite in lites if not is_lite_name(lite)), None)
    if wrong is not None:
        raise Refused(
            f"the lite topic {wrong[:80]!r} is no name of one",
            code=ResponseCode.ILLEGAL_OPERATION,
            hint=f"use 1 to {LITE_CHARS_MAX} letters, digits, - and _",
        )


def _tell(lost: Iterable[tuple[Subscriber, str]]) -> None:
    """Tell clients of lite topics that are another's now."""
    for subscriber, lite in islice(lost, _TOLD_MAX):
        if subscriber.asker is not None and subscriber.asker.writable:
            header = NotifyUnsubscribeLiteHeader(
                lite_topic=lite, consumer_group=subscriber.group, client_id=subscriber.client_id
            )
            subscriber.asker.send(Command.request(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header))
