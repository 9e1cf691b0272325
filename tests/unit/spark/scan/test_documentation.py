"""docs/how-to/spark_store.md lists exactly the options, tables and columns there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketlake.spark.scan.options import DESCRIPTIONS, TABLES
from rocketlake.spark.scan.tables import COLUMNS_OF
from rocketlake.spark.schema import COLUMNS

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "spark_store.md").read_text()


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_option_is_documented_in_its_own_words() -> None:
    assert {name.strip("`"): meaning for name, meaning in rows("Options")} == DESCRIPTIONS


def test_every_table_is_offered() -> None:
    assert tuple(COLUMNS_OF) == TABLES


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_documented_with_its_type(table: str) -> None:
    documented = {name.strip("`"): (kind, meaning) for name, kind, meaning in rows(f"Table {table}")}
    above = {"messages": COLUMNS, "half": COLUMNS_OF["messages"], "schedule": COLUMNS_OF["messages"]}.get(table, {})
    own = {name: each for name, each in COLUMNS_OF[table].items() if name not in above}
    assert documented == {name: (kind.simpleString(), text) for name, (kind, text) in own.items()}
