"""The servers' log lines: time, level, logger and text; as JSON; into a file that is opened anew."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import LogLevel, set_level
from rocketlake.cli.logs import LogForm, Logs, Severity

LOG = logging.getLogger("rocketlake.part")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("rocketlake")
    handlers, levels = [*root.handlers], (root.level, own.level)
    yield
    for handler in {*root.handlers} - {*handlers}:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def test_a_line_has_time_level_logger_and_text_and_stays_one_line(tmp_path: Path) -> None:
    file = tmp_path / "log"
    Logs(Severity.INFO, LogForm.TEXT, file)
    LOG.info("seen: %s", "a\nfake \x1b[31mline\x9b")
    LOG.debug("not seen")
    logging.getLogger("other").info("not seen")
    assert re.fullmatch(
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO rocketlake\.part"
        r" seen: a\\nfake \\x1b\[31mline\\x9b\n",
        file.read_text(),
    )


def test_errors_bring_their_traceback(tmp_path: Path) -> None:
    for form, file in ((LogForm.TEXT, tmp_path / "a"), (LogForm.JSON, tmp_path / "b")):
        Logs(Severity.ERROR, form, file)
        try:
            raise ValueError("inside")
        except ValueError:
            LOG.exception("failed")
        LOG.warning("not seen")
        assert "ValueError: inside" in file.read_text()
    line = json.loads((tmp_path / "b").read_text())
    assert (line["level"], line["logger"], line["text"]) == ("ERROR", "rocketlake.part", "failed")


def test_a_file_moved_away_is_opened_anew(tmp_path: Path) -> None:
    file = tmp_path / "log"
    logs = Logs(Severity.DEBUG, LogForm.TEXT, file)
    LOG.info("first")
    file.rename(tmp_path / "log.1")
    LOG.info("second")
    logs.reopen()
    LOG.info("third")
    assert [line.split()[-1] for line in (tmp_path / "log.1").read_text().splitlines()] == ["first", "second"]
    assert [line.split()[-1] for line in file.read_text().splitlines()] == ["anew", "third"]


def test_a_file_that_cannot_be_opened_anew_goes_on_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "log"
    file.parent.mkdir()
    logs = Logs(Severity.INFO, LogForm.TEXT, file)
    kept = tmp_path / "moved"
    file.parent.rename(kept)
    logs.reopen()
    LOG.info("still there")
    lines = (kept / "log").read_text().splitlines()
    assert "cannot be opened anew" in lines[0]
    assert lines[1].endswith("still there")


def test_a_log_that_cannot_be_written_is_an_error_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(RocketLakeError, match="cannot be written") as refused:
        Logs(Severity.INFO, LogForm.TEXT, tmp_path / "none" / "log")
    assert "--log-file" in refused.value.hint


def test_the_log_ends_with_its_command(tmp_path: Path) -> None:
    """A handler that stayed wrote to the closed standard error of a command that had run inside another program."""
    root, own = logging.getLogger(), logging.getLogger("rocketlake")
    before = [*root.handlers], root.level, own.level
    with Logs(Severity.INFO, LogForm.TEXT, tmp_path / "log"):
        LOG.info("inside")
    LOG.info("behind it")
    assert (root.handlers, root.level, own.level) == before
    assert "behind it" not in (tmp_path / "log").read_text()


def test_a_full_file_is_put_aside_and_ten_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with Logs(Severity.INFO, LogForm.TEXT, file, 1):
        for number in range(14):
            LOG.info("%d %s", number, "x" * (1 << 20))
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == sorted(["log", *(f"log.{number}" for number in range(1, 11))])
    assert " 13 x" in file.read_text()[:100]
    assert " 12 x" in (tmp_path / "log.1").read_text()[:100]


def test_the_level_of_a_running_server_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with Logs(Severity.WARNING, LogForm.TEXT, file):
        LOG.debug("not seen")
        set_level(LogLevel.debug)
        LOG.debug("seen")
        set_level(LogLevel.as_started)
        LOG.debug("seen, too")
        set_level(LogLevel.error)
        LOG.warning("not seen")
    assert [line.partition(" rocketlake.part ")[2] for line in file.read_text().splitlines()] == ["seen", "seen, too"]
