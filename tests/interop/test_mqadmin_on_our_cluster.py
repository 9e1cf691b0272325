"""Apache's own mqadmin on our cluster: the commands an operator types first."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.apache import compiled_drivers, run_driver

pytestmark = pytest.mark.interop


@pytest.fixture
def mqadmin(our_namesrv: str, tmp_path: Path) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        command = ["java", "-Xmx128m", f"-Duser.home={tmp_path}", "-cp", compiled_drivers("server")]
        command += ["org.apache.rocketmq.tools.command.MQAdminStartup", *arguments, "-n", our_namesrv]
        environment = {**os.environ, "ROCKETMQ_HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Exception" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    return run


def test_an_operators_first_commands(mqadmin: Callable[..., str], our_namesrv: str) -> None:
    assert "DefaultCluster" in mqadmin("clusterList")
    assert "success" in mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "Operated", "-r", "4", "-w", "4")
    assert "Operated" in mqadmin("topicList")
    assert '"readQueueNums":4' in mqadmin("topicRoute", "-t", "Operated").replace(" ", "")
    assert "success" in mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "operators")

    assert run_driver("Produce", our_namesrv, "Operated", "sync", 20, 50, "A")["sent"] == 20
    got = run_driver("Consume", our_namesrv, "Operated", "operators", "*", "concurrent", 20, 30, 0)
    assert got["distinct"] == 20

    status = mqadmin("topicStatus", "-t", "Operated")
    offsets = [line.split() for line in status.splitlines() if line.startswith("broker-a ")]
    assert sum(int(line[3]) for line in offsets) == 20, status
    progress = mqadmin("consumerProgress", "-g", "operators")
    assert "Diff Total: 0" in progress, progress
    by_key = mqadmin("queryMsgByKey", "-t", "Operated", "-k", "k7")
    rows = by_key[by_key.index("#Message ID") :].splitlines()[1:]
    assert len([row for row in rows if row.strip()]) == 1, by_key
    assert "success" in mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "Operated")
    assert "Operated" not in mqadmin("topicList").split()
