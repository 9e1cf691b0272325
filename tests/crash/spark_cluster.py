"""A Spark master and one worker as processes on loopback: the executor is a process of its own, which can be killed."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pyspark

from bench.process import family
from interop.apache import free_ports, wait_for_port

SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
START_SECONDS = 60


class SparkCluster:
    """`url` is the master for a session. The worker starts an executor for it, and another one whenever it dies."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        root.mkdir(parents=True)
        (self._port,) = free_ports(1)
        self._log = root / "cluster.log"
        self._environment = {
            **os.environ,
            **environment,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(root / "scratch"),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self.url = f"spark://127.0.0.1:{self._port}"
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        self._master = self._start("master.Master", *place, "--port", str(self._port))
        wait_for_port(self._port, self._master)
        size = ("--cores", "2", "--memory", "1g", "--work-dir", str(root / "work"))
        self._worker = self._start("worker.Worker", *place, *size, self.url)

    def _start(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self._environment)

    def executors(self) -> list[int]:
        """The processes of the executors; waits for the first."""
        end = time.monotonic() + START_SECONDS
        while not (found := self._executors_now()):
            assert time.monotonic() < end, f"no executor: {self._log.read_text()[-2000:]}"
            time.sleep(0.1)
        return found

    def _executors_now(self) -> list[int]:
        found = []
        for pid in family(self._worker.pid):
            try:
                if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(pid)
            except OSError:
                continue  # it ended just now
        return found

    def stop(self) -> None:
        """The worker ends its executors when it is asked to end."""
        for process in (self._worker, self._master):
            process.terminate()
            process.wait(30)
