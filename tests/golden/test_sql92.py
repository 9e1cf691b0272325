"""Our filter says what Apache's said to 700 random expressions on 40 messages (interop/record_sql92.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.sql92 import LETTERS, REFUSED
from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_evaluate import decide
from rocketlake.filter.sql_parser import parse_sql92
from tests.sql92_cases import kept_by_apache

RECORDED = json.loads((Path(__file__).parent / "sql92.json").read_text())
MESSAGES = RECORDED["messages"]


def our_outcomes(text: str) -> str:
    try:
        expression = parse_sql92(text)
    except UsageError:
        return REFUSED
    return "".join(LETTERS[decide(expression, message)] for message in MESSAGES)


@pytest.mark.parametrize("part", range(10))
def test_each_outcome_is_apaches(part: int) -> None:
    for text, theirs in RECORDED["expressions"][part::10]:
        ours = our_outcomes(text)
        if ours == REFUSED != theirs:
            # The one difference: Apache's parser stops where it cannot go on, and ignores the rest.
            ours = our_outcomes(kept_by_apache(text))
        assert ours == theirs, text


def test_the_recording_has_every_outcome_of_five_hundred_expressions() -> None:
    answers = [answer for _, answer in RECORDED["expressions"] if answer != REFUSED]
    assert len(answers) >= 500
    assert set("".join(answers)) == set(LETTERS)


def test_few_expressions_are_refused_by_us_alone() -> None:
    alone = [text for text, theirs in RECORDED["expressions"] if our_outcomes(text) == REFUSED != theirs]
    assert len(alone) < len(RECORDED["expressions"]) // 50
