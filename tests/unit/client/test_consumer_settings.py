"""The settings of consumers are described once, and every constructor shows them as arguments of its own."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rocketlake import Consumer, FirstOffset, PullConsumer, PushConsumer
from rocketlake.client.consumer.allocate import averagely

SHARED = {
    "namesrv": None, "from_where": FirstOffset.LAST, "timestamp_ms": None, "allocate": averagely, "config": None,
    "client_config": None, "instance": None, "hooks": None, "clock": None,
}  # fmt: skip
PUSH = SHARED | {"orderly": False, "broadcasting": False, "files": None}


@pytest.mark.parametrize(
    ("consumer", "own"),
    [
        (PullConsumer, SHARED | {"auto_commit": True}),
        (PushConsumer, PUSH | {"listener": inspect.Parameter.empty}),
        (Consumer, PUSH | {"topics": None}),
    ],
)
def test_help_lists_every_argument_with_its_default(consumer: Any, own: dict[str, Any]) -> None:
    found = inspect.signature(consumer).parameters.values()
    assert {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY} == own
    assert all(each.annotation for each in found)


@pytest.mark.parametrize("consumer", [PullConsumer, PushConsumer, Consumer])
def test_a_misspelt_argument_is_refused_by_the_name_of_the_class(consumer: Any) -> None:
    given = {"listener": print} if consumer is PushConsumer else {}
    with pytest.raises(TypeError, match=rf"{consumer.__name__}\(\) got an unexpected keyword argument 'nameserver'"):
        consumer("g", nameserver="127.0.0.1:9876", **given)
