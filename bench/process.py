"""Owns the figures that Linux keeps of a process: its CPU, context switches, memory, children. Linux only (/proc)."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far, all threads, seconds (proc(5), stat fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def family(pid: int) -> list[int]:
    """This process and all below it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(path.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def context_switches(pid: int) -> int:
    """Switches of all threads that live now, wanted and unwanted. A thread that ended takes its count along."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return total


def memory_mb(pid: int) -> dict[str, float]:
    """MB resident, and MB private without mapped files (anonymous pages), from smaps_rollup."""
    values = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, kilobytes = line.split(":")[0], line.split()[-2]
        values[name] = int(kilobytes) / 1024
    return {"resident": round(values["Rss"], 1), "anonymous": round(values["Anonymous"], 1)}
