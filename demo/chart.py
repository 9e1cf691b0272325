"""The demo's picture: delays by hour and airport, and how the flights went through.

Owns        one PNG file.
Must not know   where the numbers come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd


def draw(path: Path, report: pd.DataFrame, progress: Sequence[tuple[float, int, int, int]]) -> None:
    """report: the hourly report; progress: (seconds, sent, counted, in the table)."""
    figure, (delays, flow) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    departed = report.assign(weight=report.flights - report.cancelled).dropna(subset=["mean_delay"])
    departed = departed.assign(minutes=departed.mean_delay * departed.weight, hour=departed.local_time.dt.hour)
    for airport, rows in departed.groupby("airport"):
        by_hour = rows.groupby("hour")[["minutes", "weight"]].sum()
        delays.plot(by_hour.index, by_hour.minutes / by_hour.weight, marker="o", markersize=3, label=airport)
    delays.set(title="Mean departure delay, New York 2013", xlabel="scheduled hour, local time", ylabel="minutes")
    delays.legend()
    seconds, sent, counted, written = zip(*progress, strict=True)
    for values, name in ((sent, "sent"), (counted, "counted by the consumer group"), (written, "in the lake table")):
        flow.plot(seconds, [value / 1000 for value in values], label=name)
    flow.set(title="Flights through RocketLake", xlabel="seconds", ylabel="thousand messages")
    flow.legend()
    for axes in (delays, flow):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
