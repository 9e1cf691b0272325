from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.codec.property_text import encode
from rocketlake.filter.sql_evaluate import matches
from rocketlake.filter.sql_parser import parse_sql92
from tests.parity.test_record_parts import record
from tests.sql92_cases import random_expression, random_message

NAME = "rocketlake.filter.sql_record"


def test_records_match_as_their_properties_do(twin: Callable[[str], Any]) -> None:
    pair, random = twin(NAME), Random(13)
    messages = [random_message(random) for _ in range(20)]
    records = [memoryview(record(properties=encode(message))) for message in messages]
    for _ in range(400):
        with suppress(UsageError):
            expression = parse_sql92(random_expression(random))
            wanted = [matches(expression, message) for message in messages]
            for module in (pair.source, pair.compiled):
                test = module.RecordTest(expression)
                assert [test.matches(one) for one in records] == wanted, expression.text
