"""References to the environment are filled late and hidden again."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.environment import Environment, refuse_reference


def test_references_are_filled_and_hidden_again() -> None:
    environment = Environment({"SECRET": "s3cr3t-value", "HOST": "10.0.0.1"})
    assert environment.fill("${HOST}:9876;${OTHER:-b:1}", "p, line 1") == "10.0.0.1:9876;b:1"
    assert environment.fill("key=${SECRET}", "p, line 2") == "key=s3cr3t-value"
    text = "failed at 10.0.0.1:9876 with s3cr3t-value"
    assert environment.hide(text) == "failed at ${HOST}:9876 with ${SECRET}"


def test_a_value_that_contains_another_is_hidden_whole() -> None:
    environment = Environment({"A": "abcd", "B": "xabcdx"})
    environment.fill("${A}${B}", "")
    assert environment.hide("xabcdx abcd") == "${B} ${A}"


def test_short_values_are_no_secrets() -> None:
    environment = Environment({"N": "8"})
    assert environment.fill("${N}", "") == "8"
    assert environment.hide("18 rows") == "18 rows"


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(UsageError, match=r"MISSING is not set \(p, line 3\)\. Cure: export MISSING=") as refused:
        Environment({}).fill("${MISSING}", "p, line 3")
    assert refused.value.where == "p, line 3"


@pytest.mark.parametrize("text", ["${", "${1}", "${a b}", "${A"])
def test_half_a_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no reference"):
        Environment({"A": "1"}).fill(text, "p")


def test_sql_may_not_refer_to_the_environment() -> None:
    refuse_reference("select 1", "the SQL", "p")
    with pytest.raises(UsageError, match="plans and logs"):
        refuse_reference("select '${PASSWORD}'", "the SQL", "p")
