"""What the requests of a broker must be allowed to do, where it stands in a body.

Owns        the readers of bodies; for resources in fields see net/gate/needs.py.
Must not know   who may do it. Which code has which needs stands in broker/dispatch_table.py.

Source: docs/internals/access_control.md, "Requests". A body that cannot be read is refused by its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketlake.auth.action import AccessRefused, Action, Need, on_group, on_topic
from rocketlake.model.pop import NO_RETRY, RETRY_MARKS, mark_of, pop_retry_topic
from rocketlake.net.gate.needs import Needs, needs
from rocketlake.net.request import Request
from rocketlake.protocol.bodies.assignment import AssignmentRequest, RequestModeBody
from rocketlake.protocol.bodies.group import GroupConfigList, GroupEntry
from rocketlake.protocol.bodies.heartbeat import ClientConfigCheck, Heartbeat
from rocketlake.protocol.bodies.lite import LiteSubscriptionBody
from rocketlake.protocol.bodies.lock import LockBody
from rocketlake.protocol.bodies.pop import BatchAckBody
from rocketlake.protocol.bodies.topic import TopicConfigList
from rocketlake.protocol.headers.client import UnregisterClientHeader
from rocketlake.protocol.headers.pop import AckHeader

__all__ = [
    "ASSIGNMENT",
    "BATCH_ACK",
    "CHECK_CONFIG",
    "CREATE_GROUP",
    "CREATE_GROUPS",
    "CREATE_TOPICS",
    "HEARTBEAT",
    "LITE_SUBSCRIPTIONS",
    "LOCK",
    "POPPED",
    "REQUEST_MODE",
    "UNREGISTER",
]

_SUB, _CREATE = Action.SUB, Action.CREATE


def _heartbeat(request: Request) -> Iterator[Need]:
    """Producers of a client are free: each of their sends is asked about."""
    for consumer in Heartbeat.decode(request.body).consumers:
        yield on_group(_given(consumer.group_name), _SUB)
        for subscription in consumer.subscriptions:
            yield on_topic(_given(subscription.topic), _SUB)


def _unregister(request: Request) -> Iterable[Need]:
    group = request.header(UnregisterClientHeader).consumer_group
    return (on_group(group, _SUB),) if group else ()


def _lock(request: Request) -> Iterator[Need]:
    body = LockBody.decode(request.body)
    yield on_group(_given(body.consumer_group), _SUB)
    for topic in {queue.topic for queue in body.queues}:
        yield on_topic(_given(topic), _SUB)


def _check_config(request: Request) -> Iterator[Need]:
    body = ClientConfigCheck.decode(request.body)
    yield on_group(_given(body.group), _SUB)
    yield on_topic(_given(body.subscription.topic), _SUB)


def _assignment(request: Request) -> Iterator[Need]:
    body = AssignmentRequest.decode(request.body)
    yield on_group(_given(body.consumer_group), _SUB)
    yield on_topic(_given(body.topic), _SUB)


def _request_mode(request: Request) -> Iterator[Need]:
    body = RequestModeBody.decode(request.body)
    yield on_group(_given(body.consumer_group), Action.UPDATE)
    yield on_topic(_given(body.topic), _SUB)


def _popped(request: Request) -> Iterator[Need]:
    """A message may lie in a retry topic of the group, which belongs to the group."""
    header = request.header(AckHeader)
    yield on_group(_given(header.consumer_group), _SUB)
    if mark_of(header.topic) == NO_RETRY:
        yield on_topic(_given(header.topic), _SUB)
    elif not header.topic.startswith(tuple(pop_retry_topic("", header.consumer_group, mark) for mark in RETRY_MARKS)):
        raise AccessRefused(f"{header.topic} is no retry topic of group {header.consumer_group}", hint="name its group")


def _batch_ack(request: Request) -> Iterator[Need]:
    for group, topic in {(entry.group, entry.topic) for entry in BatchAckBody.decode(request.body).acks}:
        yield on_group(_given(group), _SUB)
        yield on_topic(_given(topic), _SUB)


def _lite_subscriptions(request: Request) -> Iterator[Need]:
    if request.body:
        entries = LiteSubscriptionBody.decode(request.body).subscription_set
        for group, topic in {(each.group, each.topic) for each in entries}:
            yield on_group(_given(group), _SUB)
            yield on_topic(_given(topic), _SUB)


def _topics(request: Request) -> Iterator[Need]:
    for entry in TopicConfigList.decode(request.body).topics:
        yield on_topic(_given(entry.topic_name), _CREATE)


def _group(request: Request) -> Iterator[Need]:
    yield on_group(_given(GroupEntry.decode(request.body).group_name), _CREATE)


def _groups(request: Request) -> Iterator[Need]:
    for entry in GroupConfigList.decode(request.body).groups:
        yield on_group(_given(entry.group_name), _CREATE)


def _given(name: str | None) -> str:
    if not name or not name.strip():
        raise AccessRefused("an entry of the body names no topic or group", hint="name it")
    return name


HEARTBEAT: Needs = needs(_heartbeat, _SUB)
UNREGISTER: Needs = needs(_unregister, _SUB)
LITE_SUBSCRIPTIONS: Needs = needs(_lite_subscriptions, _SUB)
LOCK: Needs = needs(_lock, _SUB)
CHECK_CONFIG: Needs = needs(_check_config, _SUB)
ASSIGNMENT: Needs = needs(_assignment, _SUB)
POPPED: Needs = needs(_popped, _SUB)
BATCH_ACK: Needs = needs(_batch_ack, _SUB)
REQUEST_MODE: Needs = needs(_request_mode, Action.UPDATE)
CREATE_TOPICS: Needs = needs(_topics, _CREATE)
CREATE_GROUP: Needs = needs(_group, _CREATE)
CREATE_GROUPS: Needs = needs(_groups, _CREATE)
