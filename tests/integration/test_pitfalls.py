"""The programs of docs/concepts/pitfalls.md say what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import second_broker

PROGRAMS = Path(__file__).parents[2] / "examples" / "pitfalls"
SAID = {
    "busy": "100 on their way, 50 refused before they were sent\n",
    "first_position": "last, in a young topic: a message from before\n"
    "first: a message from before\nfirst, the second time: nothing\n",
    "more_queues": "812 of 1000 keys go to another queue\n",
    "same_client": "one name: each message is seen 2 times\ntwo names: 1 time\n",
    "two_ids": "message id, made by the producer: the same in every copy? True\n"
    "offset id, the place in a log: the same in every copy? False\n",
    "unequal_subscriptions": "8 sent, not all seen\n",
}


def said(cluster: EmbeddedCluster, program: str) -> str:
    command = [sys.executable, PROGRAMS / f"{program}.py", cluster.namesrv]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=180, check=True, text=True).stdout


@pytest.mark.parametrize("program", SAID)
def test_a_pitfall(cluster: EmbeddedCluster, program: str) -> None:
    assert said(cluster, program) == SAID[program]


def test_a_topic_lands_on_one_broker(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with second_broker(cluster, tmp_path):
        assert said(cluster, "one_broker") == "2 brokers would have taken the message; the topic has queues on 1\n"


def test_each_program_is_run() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {*SAID, "one_broker"}
