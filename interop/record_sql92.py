"""Owns recording what Apache's SQL92 parser and evaluator answer to random expressions, in tests/golden/sql92.json.

Run by hand: `.venv/bin/python -m interop.record_sql92` (one JVM, two seconds).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

from interop.sql92 import apache_outcomes
from tests.sql92_cases import random_expression, random_message

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "sql92.json"
EXPRESSIONS = 700
MESSAGES = 40
SEED = 92


def main() -> None:
    random = Random(SEED)
    messages = [random_message(random) for _ in range(MESSAGES)]
    expressions = [random_expression(random) for _ in range(EXPRESSIONS)]
    answers = apache_outcomes(expressions, messages)
    lines = ['{"messages": [', ",\n".join(json.dumps(message) for message in messages), '], "expressions": [']
    lines += [",\n".join(json.dumps(pair) for pair in zip(expressions, answers, strict=True)), "]}"]
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
