from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.sql92_cases import VALUES

NAME = "rocketlake.filter.sql_numbers"


def test_integers_and_doubles(twin: Callable[[str], Any]) -> None:
    pair = twin(NAME)
    for text in [*VALUES, "", "-", "+", ".", "..", "1.2.3", "\u0665", "\u00b2", "9" * 5000, "0" * 5000, "5" + " " * 50]:
        for number_max in (2**31 - 1, 2**63 - 1):
            pair.same("read_integer", text, number_max)
        ours, theirs = pair.source.read_double(text), pair.compiled.read_double(text)
        assert repr(ours) == repr(theirs), "NaN is not equal to itself"


def test_the_order_of_doubles(twin: Callable[[str], Any]) -> None:
    numbers = [-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for left in numbers:
        for right in numbers:
            twin(NAME).same("compare_doubles", left, right)
