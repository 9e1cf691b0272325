"""Runs one step of an installation quietly: one moving line, the step's output in a file, and that output if it fails.

    python progress.py "installing packages" build/install.log COMMAND [WORD ...]

Owns        the lines that a terminal shows while `make` installs. Must not know   the steps of an installation.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

_LINE_SECONDS = 15.0  # without a terminal: a line that often
_TICK_SECONDS = 1.0  # the line moves, too, while a command says nothing: pip does for minutes while it unpacks
_WIDTH = 100
_ENDED_BY_CTRL_C = 130


class Line:
    """The line that moves; without a terminal a new one every `_LINE_SECONDS`."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = self._said = time.monotonic()
        self._moves = sys.stderr.isatty()
        self._step = ""
        self._ended = threading.Event()
        self._ticks = threading.Thread(target=self._tick, daemon=True)
        self._ticks.start()

    def show(self, step: str) -> None:
        """Say what the command is at."""
        self._step = step
        now = time.monotonic()
        if not self._moves and now < self._said + _LINE_SECONDS:
            return
        self._said = now
        text = f"==> {self._title}: {now - self._began:.0f} s  {step}"[:_WIDTH]
        sys.stderr.write(f"\r{text:<{_WIDTH}}" if self._moves else f"{text}\n")
        sys.stderr.flush()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            self.show(self._step)

    def end(self, what: str) -> None:
        """The last state of the line."""
        self._ended.set()
        self._ticks.join()
        text = f"==> {self._title}: {what} in {time.monotonic() - self._began:.0f} s"
        sys.stderr.write(f"\r{text:<{_WIDTH}}\n" if self._moves else f"{text}\n")


def main(words: list[str]) -> int:
    """Run the command; returns its exit code."""
    title, log, command = words[0], Path(words[1]), words[2:]
    log.parent.mkdir(parents=True, exist_ok=True)
    line = Line(title)
    line.show("")
    with (
        log.open("w", buffering=1) as kept,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as run,
    ):
        assert run.stdout is not None
        try:
            for text in run.stdout:
                kept.write(text)
                line.show(_short(text))
        except KeyboardInterrupt:  # the command got it, too
            run.wait()
            line.end("interrupted")
            return _ENDED_BY_CTRL_C
    if run.returncode:
        line.end("failed")
        sys.stderr.write(log.read_text()[-6000:] + f"\nall of it: {log}\n")
    else:
        line.end("done")
    return run.returncode


def _short(text: str) -> str:
    """ "Collecting pyspark<4.4,>=4.2 (from ...)" -> "Collecting pyspark<4.4,>=4.2"; of a compiler what it makes."""
    words = text.split()
    if "-o" in words[:-1]:
        return Path(words[words.index("-o") + 1]).name
    return " ".join(words[:2])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
