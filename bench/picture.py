"""`python -m bench.picture FILE...`: the gaps of failovers as a picture, SVG, beside the first file.

Owns        how gaps are drawn: a histogram for each fault, over a scale of powers of ten, Apache's group and ours.
Must not know   how they were measured.

FILE is a result of bench.gaps, or of `make failovers`, whose gaps are RocketLake's. Several files make one picture.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path

Gaps = dict[str, dict[str, list[int]]]
"""side -> fault -> gaps in ms."""

COLOURS = {"apache": "#c4572b", "rocketlake": "#2b6fb5"}
TITLES = {
    "kill": "master killed (-9)",
    "stop": "master stopped (SIGSTOP)",
    "hand over": "planned hand-over",
    "kill a slave": "slave killed (-9)",
}
LEFT, WIDTH, HEIGHT, SPACE = 40, 820, 90, 62
LOW_MS, HIGH_MS, PER_DECADE = 1, 100_000, 10


def place(gap_ms: float) -> float:
    """Where a gap stands on the scale, in pixels from its start."""
    low, high = math.log10(LOW_MS), math.log10(HIGH_MS)
    return WIDTH * (math.log10(min(max(gap_ms, LOW_MS), HIGH_MS)) - low) / (high - low)


def columns(gaps: list[int]) -> dict[int, float]:
    """Number of a column -> its share of these gaps."""
    found: dict[int, float] = {}
    for gap in gaps:
        number = int(math.log10(max(gap, LOW_MS)) * PER_DECADE)
        found[number] = found.get(number, 0) + 1 / len(gaps)
    return found


def text(x: float, y: float, words: str, *, colour: str = "#333", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{words}</text>'


def panel(fault: str, gaps: Gaps, top: float) -> list[str]:
    """One fault: its histogram, its scale, median and longest of each side."""
    bottom = top + HEIGHT
    parts = [text(LEFT, top - 10, TITLES.get(fault, fault))]
    for power in range(int(math.log10(LOW_MS)), int(math.log10(HIGH_MS)) + 1):
        x = LEFT + place(10**power)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(
            text(x, bottom + 14, f"{10**power} ms" if power < 3 else f"{10 ** (power - 3)} s", anchor="middle")
        )
    shares = {side: columns(found[fault]) for side, found in gaps.items() if found.get(fault)}
    highest = max(share for found in shares.values() for share in found.values())
    wide = WIDTH / (math.log10(HIGH_MS / LOW_MS) * PER_DECADE)
    for number, (side, found) in enumerate(shares.items()):
        for column, share in found.items():
            high = HEIGHT * share / highest
            parts.append(
                f'<rect x="{LEFT + column * wide:.1f}" y="{bottom - high:.1f}" width="{wide - 1:.1f}"'
                f' height="{high:.1f}" fill="{COLOURS[side]}" fill-opacity="0.75"/>'
            )
        values = sorted(gaps[side][fault])
        words = f"{side}: p50 {statistics.median(values):.0f} ms, longest {values[-1]} ms of {len(values)}"
        parts.append(text(LEFT + WIDTH - 310 * number, top - 10, words, colour=COLOURS[side], anchor="end"))
    parts.append(f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDTH}" y2="{bottom}" stroke="#333"/>')
    return parts


def draw(gaps: Gaps) -> str:
    """The SVG text."""
    known = dict.fromkeys([*TITLES, *(fault for found in gaps.values() for fault in found)])
    faults = [fault for fault in known if any(found.get(fault) for found in gaps.values())]
    height = 50 + len(faults) * (HEIGHT + SPACE)
    parts = [text(LEFT, 22, "How long a producer waits for an acknowledgement when a broker of its group goes")]
    for number, fault in enumerate(faults):
        parts += panel(fault, gaps, 66 + number * (HEIGHT + SPACE))
    size = f'width="{WIDTH + 2 * LEFT}" height="{height}" font-family="sans-serif" font-size="12"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', ground, *parts, "</svg>", ""])


def gaps_of(paths: list[Path]) -> Gaps:
    """The gaps of all files."""
    found: Gaps = {}
    for path in paths:
        gaps = json.loads(path.read_text())["gap_ms"]
        for side, faults in (gaps if set(gaps) <= set(COLOURS) else {"rocketlake": gaps}).items():
            for fault, values in faults.items():
                found.setdefault(side, {}).setdefault(fault, []).extend(values)
    return {side: found[side] for side in COLOURS if side in found}


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]]
    if not paths:
        sys.exit("usage: python -m bench.picture FILE...")
    target = paths[0].with_suffix(".svg")
    target.write_text(draw(gaps_of(paths)))
    print(f"written: {target}")


if __name__ == "__main__":
    main()
