"""The filter of a subscription: tags, or an SQL92 expression.

Owns        reading a filter when it is given, asking brokers whether they serve it before the first message is pulled.
Must not know   pulling, push or pull consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.settings.arguments import check_kind
from rocketlake.client.calls.group import check_config
from rocketlake.client.instance import ClientInstance
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model.subscription import SQL92, TAG, Subscription, parse_subscription

__all__ = ["check_filters", "subscription_of", "wanted_topics"]


def wanted_topics(topic: str | None, expression: str, topics: Mapping[str, str] | None) -> dict[str, str]:
    """What a consumer of one topic, or of several, subscribes to: topic -> expression. UsageError names an odd one."""
    if topics is not None:
        check_kind("topics", topics, Mapping, hint='give topics={"orders": "*", "prices": "TagA || TagB"}')
    if topic is not None and not isinstance(topic, str):
        hint = 'for several write topics={"orders": "*"}; settings have names: config=ConsumerConfig(...)'
        check_kind("a topic", topic, str, hint=hint)
    return {**(topics or {}), **({} if topic is None else {topic: expression})}


def subscription_of(topic: str, expression: str, expression_type: str, version: int) -> Subscription:
    """Raises UsageError for an unknown type and for an expression with an error, whose place it names."""
    if expression is not None:
        check_kind(f"the expression for topic {topic}", expression, str, hint='write "TagA || TagB", or "*" for all')
    if expression_type not in (TAG, SQL92):
        raise UsageError(f"expression_type is {expression_type!r}", hint=f"use {TAG!r} or {SQL92!r}")
    subscription = parse_subscription(topic, expression, expression_type, version)
    if expression_type == SQL92:
        parse_sql92(expression)
    return subscription


async def check_filters(instance: ClientInstance, group: str, subscriptions: Iterable[Subscription]) -> None:
    """Raises UsageError if a broker does not serve an SQL92 filter of these; a topic without a route is not checked."""
    for subscription in subscriptions:
        if subscription.is_tag_type:
            continue
        for name in sorted({queue.broker_name for queue in await instance.queues_to_read(subscription.topic) or ()}):
            address = await instance.master(name, subscription.topic)
            try:
                await check_config(instance.net, address, instance.client_id, group, subscription)
            except RemoteError as error:
                # The remark of a RocketLake broker ends with a cure of its own; this error has one already.
                remark = error.remark.partition(". Cure:")[0].strip()
                raise UsageError(
                    f"broker {name} does not take the filter of topic {subscription.topic}: {remark}",
                    where=address,
                    hint="set enablePropertyFilter=true on each broker, or subscribe by tags",
                ) from error
