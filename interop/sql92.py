"""Owns asking Apache's own SQL92 parser and evaluator, those of its broker, for the outcomes of many expressions.

One short JVM for any number of expressions; no broker is started. What the letters mean: java/filter/Filter.java.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping, Sequence

from interop.apache import HERE, classpath

LETTERS = "FTNX"
"""Letter of an outcome of rocketlake.filter.sql_tree: FALSE, TRUE, UNKNOWN, FAILED."""
REFUSED = "refused"


def apache_outcomes(expressions: Sequence[str], messages: Sequence[Mapping[str, str]]) -> list[str]:
    """For each expression REFUSED, or one letter a message."""
    lines = [" ".join(["M", *(_word(text) for pair in message.items() for text in pair)]) for message in messages]
    lines += [f"E {_word(text)}" for text in expressions]
    # Java runs the one source file as it is; the other drivers are compiled for peers that have no filter package.
    command = ["java", "-Xmx256m", "-cp", classpath("server"), str(HERE / "filter" / "Filter.java")]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=180)
    answers = [line for line in done.stdout.splitlines() if line == REFUSED or set(line) <= set(LETTERS + "?")]
    if done.returncode or len(answers) != len(expressions):
        raise RuntimeError(f"Filter failed ({done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return answers


def _word(text: str) -> str:
    return "=" + base64.b64encode(text.encode()).decode()
