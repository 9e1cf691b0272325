"""Arrow's answer to an SQL92 filter is the evaluator's, row by row, for random expressions and messages."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from rocketlake.base.errors import UsageError  # noqa: E402
from rocketlake.filter.sql_evaluate import evaluate  # noqa: E402
from rocketlake.filter.sql_parser import parse_sql92  # noqa: E402
from rocketlake.spark.predicate.to_arrow import arrow_mask  # noqa: E402
from tests.sql92_cases import random_expression, random_message  # noqa: E402

MAP = pa.map_(pa.string(), pa.string())


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False))
def test_arrow_decides_as_the_broker(random: Random) -> None:
    try:
        expression = parse_sql92(random_expression(random))
    except UsageError:
        return
    messages = [random_message(random) for _ in range(random.randint(0, 12))]
    rows = pa.array([list(message.items()) for message in messages], MAP)
    assert arrow_mask(expression, rows).to_pylist() == [evaluate(expression, message) for message in messages]
