"""What several folders of tests share, and how a run of many of them is laid out."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from interop.apache import PeerMissing, compiled_drivers
from tests import seeds
from tests.garbage import collect_if_grown

# Both measure this machine, not the code: with both cores busy they fail tests at random.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell that starts the tests in the background has them ignore Ctrl-C, with all programs that they start. Some tests
# press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
LONG_FOLDERS = ("spark", "crash", "interop")
"""Their tests start a JVM or real processes each: all are for the long tier, but for those marked `smoke`."""
LONGEST_FIRST = (*LONG_FOLDERS, "integration", "simulation", "histories")
"""A file that takes long and begins last would end alone, with the other core idle."""
LONG_SECONDS = 5.0
PEER_SECONDS_MAX = 900.0
"""A test with a peer that hangs ends then. On a busy machine Java takes minutes, and a call to Spark's JVM that was
ended half-way spoils all later ones."""
MANY = 500


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the 11,000 tests themselves from Python's garbage collector: it looked at them again and again, held all
    threads for two to four seconds with three processes at work, and what a test waited for in that time failed. So no
    test may call gc.unfreeze."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_logfinish() -> None:
    """Behind each test."""
    collect_if_grown()


@pytest.hookimpl(tryfirst=True)  # before the marks choose the tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its tier, and begin with the longest folders, in all processes alike.

    `ROCKETLAKE_LONG_PART=half` leaves out the long tests of half of the files, as CI does: the whole takes an hour.
    """
    for item in items:
        if _folder(item) not in LONG_FOLDERS:
            continue
        if not item.get_closest_marker("smoke"):
            item.add_marker("long")
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PEER_SECONDS_MAX))
    places = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(_folder(item), len(places)))
    if os.environ.get("ROCKETLAKE_LONG_PART") == "half":
        left_out = [item for item in items if item.get_closest_marker("long") and not _is_drawn(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_drawn(item: pytest.Item) -> bool:
    """True for the long tests of about half of the files, drawn by the commit as seeds are."""
    return crc32(f"{seeds.word()} {item.path.relative_to(HERE)}".encode()) % 2 == 0


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).parts[0]


def pytest_report_header() -> str:
    """What plays the seeds of this run again."""
    return f"seeds: ROCKETLAKE_SEEDS={seeds.word()}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """A process takes whole files, and one of them all of Spark: each JVM more costs 10 seconds and a core."""
    from xdist.scheduler import LoadFileScheduling

    class FilesAndOneSpark(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "tests/spark" if file.startswith("tests/spark/") else file

    return FilesAndOneSpark(config, log)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Behind a run of many tests: seconds by folder, and tests of the short tier that belong into the long one."""
    seconds: dict[str, float] = defaultdict(float)
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
    if len(seconds) < MANY:
        return
    folders: dict[str, list[float]] = defaultdict(list)
    for test, took in seconds.items():
        folders["/".join(test.split("::")[0].split("/")[:2])].append(took)
    terminalreporter.section("seconds by folder")
    for folder, times in sorted(folders.items(), key=lambda each: -sum(each[1])):
        terminalreporter.line(f"{folder:<24}{len(times):>6} tests{sum(times):>8.0f} s")
    if config.option.markexpr == "not long":
        peers = tuple(f"tests/{folder}/" for folder in LONG_FOLDERS)
        slow = {test: took for test, took in seconds.items() if took > LONG_SECONDS and not test.startswith(peers)}
        for test, took in sorted(slow.items(), key=lambda each: -each[1]):
            terminalreporter.line(f"{took:>6.1f} s: on a quiet machine this test is `long`: {test}")


@pytest.fixture(scope="session")
def apache_jars() -> None:
    """Fetch and compile what the peers need; a missing peer is a skip by name, and a failure under CI=true."""
    try:
        for name in ("server", "client49"):
            compiled_drivers(name)
    except PeerMissing as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI needs this peer: {reason}")
        pytest.skip(str(reason))
