"""The filter of a subscription: tags, or an SQL92 expression.

Owns        reading a filter when it is given, asking brokers whether they serve it before the first message is pulled.
Must not know   pulling, push or pull consumers.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.calls.group import check_config
from rocketlake.client.instance import ClientInstance
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model.subscription import SQL92, TAG, Subscription, parse_subscription

__all__ = ["check_filters", "subscription_of"]


def subscription_of(topic: str, expression: str, expression_type: str, version: int) -> Subscription:
    """Raises UsageError for an unknown type and for an expression with an error, whose place it names."""
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
