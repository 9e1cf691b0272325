"""The page on encrypted connections does what it says, its commands and its program in their order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "tls.md").read_text()
COMMANDS = re.findall(r"^    ((?:mkdir|openssl|printf|export|rocketlake) .*)$", PAGE, re.MULTILINE)
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
UP = "rocketlake up "


@contextmanager
def up(folder: Path, command: str, environment: dict[str, str]) -> Iterator[str]:
    """The servers of this command on free ports; the address of the name server."""
    words = f"{command} --namesrv-port 0 --broker-port 0"
    process = subprocess.Popen(
        ["bash", "-c", f"exec {words}"], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"name server +(\S+)", line):
                yield found[1]
                break
        else:
            raise AssertionError("the servers did not start")
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_page_on_encrypted_connections(tmp_path: Path) -> None:
    (tmp_path / "rocketlake").write_text(f'#!/bin/sh\nexec {sys.executable} -m rocketlake "$@"\n')
    (tmp_path / "rocketlake").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "COLUMNS": "200"}
    (start,) = [number for number, command in enumerate(COMMANDS) if command.startswith(UP)]
    before, after = COMMANDS[:start], COMMANDS[start + 1 :]

    def typed(*commands: str) -> str:
        text = "\n".join(["set -e", *commands])
        done = subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    typed(*before)
    with up(tmp_path, COMMANDS[start], environment) as address:
        environment["NAMESRV_ADDR"] = address
        first = next(number for number, command in enumerate(after) if command.startswith("openssl"))
        said = typed(*after[:first])
        assert "hello" in said and said.rstrip().endswith("orders")
        (tmp_path / "program.py").write_text(PROGRAM)
        typed(f"{sys.executable} program.py")
    typed(*after[first:-1])
    with up(tmp_path, COMMANDS[start], environment) as address:
        environment["NAMESRV_ADDR"] = address
        environment["ROCKETLAKE_TLS_CONFIG"] = "tls/client.properties"
        assert after[-1].startswith("rocketlake produce")
        typed(after[-1])
        stranger = tmp_path / "stranger.properties"
        stranger.write_text(f"tls.client.trustCertPath={tmp_path}/tls/ca.pem\n")
        environment["ROCKETLAKE_TLS_CONFIG"] = str(stranger)
        said = typed(f"! {after[-1]} 2>&1")
        assert "certificate required" in said or "closed" in said
