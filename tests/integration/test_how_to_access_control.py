"""The page on users does what it says, its commands in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_how_to_tls import up
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "access_control.md").read_text()
COMMANDS = re.findall(r"^    ((?:printf|export|rocketlake) .*)$", PAGE, re.MULTILINE)


@pytest.mark.long
def test_the_page_on_users(tmp_path: Path) -> None:
    (tmp_path / "rocketlake").write_text(f'#!/bin/sh\nexec {sys.executable} -m rocketlake "$@"\n')
    (tmp_path / "rocketlake").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "COLUMNS": "200"}
    with up(tmp_path, COMMANDS[0], environment) as address:
        environment["NAMESRV_ADDR"] = address
        # The one that says no, and so ends with 1, comes behind the others.
        text = "\n".join(["set -e", *sorted(COMMANDS[1:], key=lambda line: "acl explain" in line)])
        done = subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 8, "the last command says that alice may not send: " + done.stdout + done.stderr
    assert "Topic:orders" in done.stdout and "Group:alice*" in done.stdout
    assert "bytes-in=1048576 requests-out=200" in done.stdout
    assert done.stdout.endswith("refused: Deny Pub on Topic:orders\n")
