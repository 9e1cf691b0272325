"""Request and reply between both worlds: Java asks and answers on our broker."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from interop.apache import run_driver

pytestmark = pytest.mark.interop

COUNT = 50


@pytest.mark.parametrize("peer", ["server550", "client49"])
def test_java_asks_and_java_answers_on_our_broker(our_namesrv: str, peer: str) -> None:
    topic = f"Asked_{peer}"
    # The topic is there before the first request: the consumer finds its route at once.
    command = [sys.executable, "-m", "rocketlake", "topic", "create", topic, "-n", our_namesrv]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(run_driver, "Request", "answer", our_namesrv, topic, COUNT, 90, peer=peer)
        asked = run_driver("Request", "ask", our_namesrv, topic, COUNT, 60_000, peer=peer)
        assert asked == {"right": COUNT, "wrong": 0, "none": 0}
        assert answers.result() == {"answered": COUNT, "failed": 0}
