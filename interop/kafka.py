"""Owns starting one Apache Kafka broker (KRaft, no ZooKeeper) on loopback, and filling a topic of it.

A peer of the Spark benchmark only. Jars come from Maven Central as for Apache RocketMQ (apache.py).
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from interop.apache import classpath, free_ports, wait_for_port

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
num.partitions=8
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def spark_kafka_jars() -> str:
    """Jars of Spark's Kafka connector, comma separated, for `spark.jars`."""
    return classpath("spark_kafka").replace(":", ",")


class KafkaBroker:
    """One broker in a folder of its own; Kafka's default configuration but for addresses and a heap of 1 GiB."""

    def __init__(self, root: Path) -> None:
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._port = port
        self._root = root
        self._settings = _SETTINGS.format(port=port, controller=controller, logs=root / "logs")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> KafkaBroker:
        self._root.mkdir(parents=True)
        conf = self._root / "server.properties"
        conf.write_text(self._settings)
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(conf))
        with (self._root / "broker.log").open("ab") as log:
            command = ["java", "-Xms1g", "-Xmx1g", "-cp", classpath("kafka"), "kafka.Kafka", str(conf)]
            self._process = subprocess.Popen(command, cwd=self._root, stdout=log, stderr=subprocess.STDOUT)
        wait_for_port(self._port, self._process)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def fill(self, topic: str, messages: int, body_bytes: int) -> None:
        """Send this many records with Kafka's own performance tool, as fast as it can, acknowledged by the leader."""
        self._run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(messages), "--record-size", str(body_bytes)),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={self.servers}", "acks=1", "linger.ms=5"),
        )

    def _run(self, main: str, *words: str) -> None:
        command = ["java", "-Xmx512m", "-cp", classpath("kafka"), main, *words]
        done = subprocess.run(command, cwd=self._root, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{main} failed ({done.returncode}): {done.stdout[-1000:]}{done.stderr[-2000:]}")
