"""docs/how-to/lake.md and object_stores.md list exactly the options there are, in their own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS
from rocketlake.spark.lake.options import DESCRIPTIONS
from rocketlake.spark.places.settings import STORE_OPTIONS

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to"
PAGE = (HOW_TO / "lake.md").read_text()
STORES = (HOW_TO / "object_stores.md").read_text()


def test_every_option_is_documented_in_its_own_words() -> None:
    section = PAGE.split("## Options\n", 1)[1].split("\n## ", 1)[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `"): meaning.strip().replace("\\|", "|") for name, meaning in cells}
    assert documented == DESCRIPTIONS


@pytest.mark.parametrize(("heading", "options"), [("Options", STORE_OPTIONS), ("Catalogs", CATALOG_OPTIONS)])
def test_options_of_stores_and_catalogs_are_documented_in_their_own_words(
    heading: str, options: dict[str, str]
) -> None:
    section = STORES.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip(" `"): meaning.strip() for name, meaning in cells} == options
