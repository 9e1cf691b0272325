from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_parser import parse_sql92
from tests.sql92_cases import random_expression, random_message

NAME = "rocketlake.filter.sql_evaluate"


def test_random_expressions_on_random_messages(twin: Callable[[str], Any]) -> None:
    pair, random = twin(NAME), Random(11)
    messages = [random_message(random) for _ in range(30)]
    for _ in range(800):
        with suppress(UsageError):
            expression = parse_sql92(random_expression(random))
            for message in messages:
                pair.same("decide", expression, message)
            pair.same("evaluate", expression, messages[0])
            pair.same("matches", expression, messages[0])


def test_values_that_are_no_text(twin: Callable[[str], Any]) -> None:
    """A mapping with None as a value has no such property."""
    assert twin(NAME).same("evaluate", parse_sql92("a IS NULL AND b IS NULL"), {"a": None}) is True
