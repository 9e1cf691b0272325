"""Both forms of the checks of a message, and of taking it as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from rocketlake.client.config import ProducerConfig
from rocketlake.model.message import Message, StoredMessage
from tests.parity.forms import outcome

NAME = "rocketlake.client.producer.message_check"
CONFIG = ProducerConfig(message_bytes_max=100, delay_level_max=18)


class Own(Message):
    note = ""


def own() -> Own:
    message = Own("T", b"x", tags="a")
    message.note = "kept"
    return message


def changed(**values: Any) -> Message:
    message = Message("T", b"x", tags="a")
    for name, value in values.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x"), Message("T", b"x" * 100), Message("T", b"x" * 101), Message("T", b""), Message("", b"x"),
        Message("a b", b"x"), Message("SCHEDULE_TOPIC_XXXX", b"x"), Message("T", b"x", tags="a||b"),
        Message("T", b"x", tags="a", keys="b"), Message("T", b"x", delay_level=18), Message("T", b"x", delay_level=19),
        Message.with_properties("T", b"x", {"DELAY": "soon"}), StoredMessage("T", b"x", queue_id=3), own(),
        Message("T", b"x", flag=-(1 << 31)), Message("T", b"x", flag=1 << 31), Message("T", b"x", flag=[]),  # type: ignore[arg-type]
    ],
    ids=range(17),
)  # fmt: skip
def test_checks(twin: Callable[[str], Any], message: Message) -> None:
    pair = twin(NAME)
    for _ in range(2):  # the second time the topic is known
        checks = [form.MessageCheck(CONFIG).check for form in (pair.compiled, pair.source)]
        compiled, source = (outcome(check, (message,), {}) for check in checks)
        assert compiled == source


def test_many_topics(twin: Callable[[str], Any]) -> None:
    pair, numbers = twin(NAME), random.Random(7)
    checks = [form.MessageCheck(CONFIG).check for form in (pair.compiled, pair.source)]
    for _ in range(5000):
        message = Message(f"T{numbers.choice(' ab')}{numbers.randrange(3000)}", b"x")
        compiled, source = (outcome(check, (message,), {}) for check in checks)
        assert compiled == source


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", tags="a", flag=5), own(), StoredMessage("T", b"x", queue_id=3, properties={"a": "b"}),
        changed(body=bytearray(b"x")), changed(body="text"), changed(topic=5), changed(flag="odd"),
        changed(properties=MappingProxyType({"a": "b"})), changed(lazy_properties=lambda: {"a": "b"}),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_message_as_it_is(twin: Callable[[str], Any], message: Message) -> None:
    taken = twin(NAME).same("as_now", message)
    if isinstance(taken, Message):
        assert type(taken) is type(message)
        assert (taken, type(taken.body)) == (message, bytes)
        assert getattr(taken, "note", None) == getattr(message, "note", None)
        properties = dict(message.properties)
        taken.properties["c"] = "d"
        assert message.properties == properties


@pytest.mark.parametrize("wrong", [None, 5, "text", {"topic": "T"}])
def test_what_is_no_message(twin: Callable[[str], Any], wrong: object) -> None:
    twin(NAME).same("as_now", wrong)
