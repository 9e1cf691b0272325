"""The table of a benchmark: medians, ratios, spreads and what counts as reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values
from bench.table import markdown, plain, row_of, verdict


def nothing(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    raise AssertionError("a table runs nothing")


def load_of(figure: Figure) -> Load:
    return Load("l", "a load", (figure,), nothing)


def runs_of(apache: list[float], ours: list[float]) -> list[dict[str, Any]]:
    return [
        *({"side": "apache", "values": {"rate": value}} for value in apache),
        *({"side": "rocketlake", "values": {"rate": value}} for value in ours),
        {"side": "rocketlake", "values": {}, "error": "failed"},
    ]


def test_a_row_has_medians_ratio_and_spread() -> None:
    figure = Figure("rate", "sends/s", 1.3, 1.8)
    row = row_of(load_of(figure), figure, runs_of([100, 104], [140, 150, 151]))
    assert row is not None
    assert (row["apache"], row["rocketlake"], row["ratio"]) == (102, 150, 1.471)
    assert (row["noisy"], row["verdict"]) == (False, "must")
    assert row["rocketlake_spread"] == pytest.approx(11 / 150, abs=1e-3)


def test_apache_runs_that_differ_by_more_than_a_tenth_are_named() -> None:
    figure = Figure("rate", "sends/s")
    row = row_of(load_of(figure), figure, runs_of([100, 112], [140]))
    assert row is not None
    assert row["noisy"]
    assert "differ by more than 10 %" in plain([row])


def test_a_figure_nobody_measured_has_no_row() -> None:
    figure = Figure("other", "sends/s")
    assert row_of(load_of(figure), figure, runs_of([1], [1])) is None


@pytest.mark.parametrize(
    ("better", "value", "expected"),
    [
        ("higher", 1.8, "aim"),
        ("higher", 1.79, "must"),
        ("higher", 1.29, "missed"),
        ("lower", 0.2, "aim"),
        ("lower", 0.21, "must"),
        ("lower", 0.41, "missed"),
        ("lower", None, ""),
    ],
)
def test_limits_themselves_are_reached(better: Any, value: float | None, expected: str) -> None:
    limits = (1.3, 1.8) if better == "higher" else (0.4, 0.2)
    assert verdict(Figure("rate", "r", *limits, better), value) == expected


def test_a_limit_of_ours_alone_is_held_against_ours() -> None:
    figure = Figure("rate", "s", 2.0, 1.0, "lower", "ours")
    row = row_of(load_of(figure), figure, runs_of([10], [1.5]))
    assert row is not None
    assert (row["ratio"], row["verdict"]) == (0.15, "must")


def test_the_markdown_says_where_it_was_measured() -> None:
    figure = Figure("rate", "sends/s", 1.3, 1.8)
    row = row_of(load_of(figure), figure, runs_of([1000], [2000]))
    machine = dict.fromkeys(("when", "cores", "processor", "python", "commit", "form"), "m")
    text = markdown(
        {
            "machine": machine,
            "plan": {"warm": 20.0, "seconds": 20.0, "rounds": 2},
            "limits": {"fdatasync_per_second": 400.0},
            "table": [row],
        }
    )
    assert "fdatasync per second 400" in text
    assert "| a load | sends/s | 1,000 | 2,000 | 2 | ≥ 1.3x | ≥ 1.8x | aim | - / - |" in text
