"""docs/how-to/lake.md lists exactly the options there are, in their own words."""

from __future__ import annotations

import re
from pathlib import Path

from rocketlake.spark.lake.options import DESCRIPTIONS

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "lake.md").read_text()


def test_every_option_is_documented_in_its_own_words() -> None:
    section = PAGE.split("## Options\n", 1)[1].split("\n## ", 1)[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `"): meaning.strip().replace("\\|", "|") for name, meaning in cells}
    assert documented == DESCRIPTIONS
