"""The blocking twins take what the async clients take; over real sockets: tests/integration/test_client_pull.py."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rocketlake import Consumer, Message, Producer, PullConsumer, PushConsumer, TransactionProducer
from rocketlake.base.errors import UsageError
from rocketlake.client import sync
from rocketlake.client.instance import ClientInstance

PAIRS = [
    (sync.Producer, Producer),
    (sync.TransactionProducer, TransactionProducer),
    (sync.PushConsumer, PushConsumer),
    (sync.PullConsumer, PullConsumer),
    (sync.Consumer, Consumer),
]


@pytest.mark.parametrize(("twin", "original"), PAIRS)
def test_each_method_has_the_arguments_and_the_docstring_of_its_original(twin: Any, original: Any) -> None:
    names = [name for name in vars(twin) if name == "__init__" or not name.startswith("_")]
    assert len(names) > 2
    for name in names:
        own, others = getattr(twin, name), getattr(original, name)
        assert inspect.signature(own) == inspect.signature(others), name
        assert own.__doc__ == others.__doc__, name
        assert not inspect.iscoroutinefunction(own), name


def test_a_call_before_start_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Producer is not running.*start\(\)"):
        sync.Producer("g").send(Message("T", b"x"))


def test_a_blocking_client_shares_no_instance() -> None:
    with pytest.raises(UsageError, match="instance of its own"):
        sync.Producer("g", instance=ClientInstance())


def test_plain_methods_work_before_start() -> None:
    consumer = sync.PullConsumer("g")
    consumer.subscribe("T")
    assert consumer.assignment == []
