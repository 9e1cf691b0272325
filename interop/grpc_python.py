"""Apache's own Python client for gRPC (rocketmq-python-client), as a process: `python -m interop.grpc_python WHAT ...`.

It prints a JSON line for each thing that happened. It has a process of its own because grpcio must not live in one that
forks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    LitePushConsumer,
    LiteSimpleConsumer,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.exception import LiteSubscriptionQuotaExceededException

WAIT_SECONDS = 40


def say(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # in one piece: listeners run on threads


def seen(message: Any) -> dict[str, Any]:
    return {
        "body": message.body.decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "properties": dict(message.properties),
        "id": message.message_id,
        "group": message.message_group,
        "lite": message.lite_topic,
        "attempt": message.delivery_attempt,
    }


def message_of(topic: str, given: dict[str, Any]) -> Any:
    message = Message()
    message.topic, message.body = topic, given["body"].encode()
    if "tag" in given:
        message.tag = given["tag"]
    for key in given.get("keys", ()):
        message.keys = key  # adds one
    if "group" in given:
        message.message_group = given["group"]
    if "priority" in given:
        message.priority = given["priority"]
    if "lite" in given:
        message.lite_topic = given["lite"]
    if "delay" in given:
        message.delivery_timestamp = int(time.time() + given["delay"])
    for name, value in given.get("properties", {}).items():
        message.add_property(name, value)
    return message


def send(config: Any, topic: str, messages: str, tls: bool) -> None:
    """Send these messages, a JSON list."""
    producer = Producer(config, (topic,), tls_enable=tls)
    producer.startup()
    for given in json.loads(messages):
        try:
            say(sent=producer.send(message_of(topic, given)).message_id)
        except Exception as error:
            say(refused=str(error))
    producer.shutdown()


def receive(config: Any, topic: str, group: str, count: str, what: str, tls: bool) -> None:
    """Receive so many messages and do with them what is asked: ack, keep, later (visible again after 10 s)."""
    consumer = SimpleConsumer(config, group, {topic: FilterExpression()}, await_duration=5, tls_enable=tls)
    consumer.startup()
    left, deadline = int(count), time.monotonic() + WAIT_SECONDS
    while left and time.monotonic() < deadline:
        for message in consumer.receive(32, 10) or []:
            say(received=seen(message))
            left -= 1
            if what == "ack":
                consumer.ack(message)
            elif what == "later":
                consumer.change_invisible_duration(message, 10)
    consumer.shutdown()


class _Listener(MessageListener):
    def __init__(self, fails_first: bool) -> None:
        self.count = 0
        self.fails_first = fails_first

    def consume(self, message: Any) -> Any:
        say(pushed=seen(message))
        self.count += 1
        return ConsumeResult.FAILURE if self.fails_first and message.delivery_attempt == 1 else ConsumeResult.SUCCESS


def push(config: Any, topic: str, group: str, count: str, expression: str, fails_first: str, tls: bool) -> None:
    """Be pushed so many messages."""
    listener = _Listener(fails_first == "fails-first")
    consumer = PushConsumer(config, group, listener, {topic: FilterExpression(expression)}, tls_enable=tls)
    consumer.startup()
    deadline = time.monotonic() + WAIT_SECONDS
    while listener.count < int(count) and time.monotonic() < deadline:
        time.sleep(0.05)
    consumer.shutdown()


def subscribe_lite(consumer: Any, lites: str) -> None:
    """Subscribe to these lite topics. The client refuses that until the answer to its settings has come.

    5.1.2 asks for each letter of a name; its whole set, said each 30 s and now, has the names.
    """
    deadline, names = time.monotonic() + WAIT_SECONDS, [name for name in lites.split(",") if name]
    for each in names:
        while True:
            try:
                consumer.subscribe_lite(each)
                break
            except LiteSubscriptionQuotaExceededException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    if names:
        consumer.subscribe_lite_all()


def lite(config: Any, topic: str, group: str, count: str, lites: str, end: str, tls: bool) -> None:
    """Receive so many messages of lite topics, and acknowledge them or not."""
    consumer = LiteSimpleConsumer(topic, config, group, 5, tls)
    consumer.startup()
    subscribe_lite(consumer, lites)
    deadline, found = time.monotonic() + WAIT_SECONDS, 0
    while found < int(count) and time.monotonic() < deadline:
        for message in consumer.receive(16, 15) or ():
            say(received=seen(message))
            found += 1
            if end == "ack":
                consumer.ack(message)
            elif end == "later":
                consumer.change_invisible_duration(message, 1)
    consumer.shutdown()


def lite_push(config: Any, topic: str, group: str, count: str, lites: str, fails_first: str, tls: bool) -> None:
    """Be pushed so many messages of lite topics."""
    listener = _Listener(fails_first == "fails-first")
    consumer = LitePushConsumer(config, group, topic, listener, tls_enable=tls)
    consumer.startup()
    subscribe_lite(consumer, lites)
    deadline = time.monotonic() + WAIT_SECONDS
    while listener.count < int(count) and time.monotonic() < deadline:
        time.sleep(0.05)
    consumer.shutdown()


class _Checker(TransactionChecker):
    def __init__(self) -> None:
        self.is_asked = False

    def check(self, message: Any) -> Any:
        say(asked=seen(message))
        self.is_asked = True
        return TransactionResolution.COMMIT


def transaction(config: Any, topic: str, end: str, tls: bool) -> None:
    """Send in a transaction and end it: commit, rollback, or wait to be asked."""
    checker = _Checker()
    producer = Producer(config, (topic,), checker=checker, tls_enable=tls)
    producer.startup()
    begun = producer.begin_transaction()
    message = message_of(topic, {"body": end})
    if end == "asked":
        message.add_property("asked", "yes")
    say(sent=producer.send(message, begun).message_id)
    if end == "commit":
        begun.commit()
    elif end == "rollback":
        begun.rollback()
    else:
        deadline = time.monotonic() + WAIT_SECONDS
        while not checker.is_asked and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)  # the answer is on its way
    producer.shutdown()


def recall(config: Any, topic: str, seconds: str, tls: bool) -> None:
    """Send two messages for later and recall the first."""
    producer = Producer(config, (topic,), tls_enable=tls)
    producer.startup()
    first, _ = [
        producer.send(message_of(topic, {"body": body, "delay": int(seconds)})) for body in ("recalled", "kept")
    ]
    say(sent=first.message_id)
    say(recalled=producer.recall_message(topic, first.recall_handle))
    producer.shutdown()


def main(words: list[str]) -> None:
    what, endpoint, user, tls, *rest = words
    config = ClientConfiguration(endpoint, Credentials(*user.split(":")) if user else Credentials())
    call = {"send": send, "receive": receive, "push": push, "transaction": transaction, "recall": recall}
    call |= {"lite": lite, "lite_push": lite_push}
    call[what](config, *rest, tls == "tls")


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # its threads do not all end
