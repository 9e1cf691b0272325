"""docs/how-to/lake.md and object_stores.md list exactly the options there are, in their own words."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_every_option_of_object_stores_is_documented_in_its_own_words() -> None:
    section = STORES.split("## Options\n", 1)[1].split("\n## ", 1)[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip(" `"): meaning.strip() for name, meaning in cells} == STORE_OPTIONS
