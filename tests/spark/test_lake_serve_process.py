"""`rocketlake lake serve` as a process: on S3 and in Iceberg, killed, over Spark Connect, with many topics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from interop.apache import free_ports
from rocketlake.admin.sync import Admin
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.testing.cluster import EmbeddedCluster
from tests.crash.spark_kills import table_rows
from tests.s3_server import options_for, s3_server

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def command(cluster: EmbeddedCluster, *words: str) -> list[str]:
    master = [] if "--master" in words else ["--master", "local[2]"]
    return [sys.executable, "-m", "rocketlake", "lake", "serve", "-n", cluster.namesrv, *master, *words]


CONNECT_SERVER = """
import sys
from pathlib import Path
from rocketlake.spark.pipeline.session import local_session

plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
settings = {"spark.plugins": plugin, "spark.connect.grpc.binding.port": sys.argv[2]}
local_session("server", Path(sys.argv[1]), master="local[2]", settings=settings)
print("up", flush=True)
sys.stdin.read()
"""

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable, "COLUMNS": "200"}


def serve_once(cluster: EmbeddedCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(cluster, "--once", *words),
        env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_SECONDS,
    )  # fmt: skip


@contextmanager
def serving(cluster: EmbeddedCluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command until the block ends, then killed with all that it has started."""
    process = subprocess.Popen(
        command(cluster, "--every", "1s", *words),
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < limit
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%05d" % number for number in range(first, end)]


def has_rows(folder: Path, topics: Iterable[str], count: int) -> bool:
    """True if each table has so many."""
    return all(count_of(folder / topic) >= count for topic in topics)


def count_of(path: Path) -> int:
    description = Descriptions(path).latest()
    return 0 if description is None else sum(f.rows for f in open_table(path, description.table_format).files())


def test_tables_of_two_formats_lie_on_s3_and_go_on(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with s3_server("lake") as endpoint:
        options = options_for(endpoint, tmp_path) | {
            "catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db"
        }  # fmt: skip
        words = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
        words += ["--to", "s3://lake/tables", "--topic", "s3-orders=delta", "--topic", "s3-clicks=iceberg"]
        refused = serve_once(cluster, *words)
        assert "give --checkpoint a folder that stays" in refused.stderr, refused.stderr
        words += ["--checkpoint", str(tmp_path / "checkpoints")]
        for first, end in ((0, 30), (30, 50)):
            for topic in ("s3-orders", "s3-clicks"):
                cluster.send(topic, numbered(first, end))
            done = serve_once(cluster, *words)
            assert done.returncode == 0, done.stdout + done.stderr
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a", "AWS_REGION": "us-east-1"}
        store = keys | {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
        delta = DeltaTable("s3://lake/tables/s3-orders", storage_options=store).to_pyarrow_dataset().to_table()
        assert bodies(delta) == numbered(0, 50)
        names = {
            "s3.endpoint": endpoint,
            "s3.access-key-id": "a",
            "s3.secret-access-key": "a",
            "s3.region": "us-east-1",
        }
        catalog = load_catalog("rocketlake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **names)
        assert bodies(catalog.load_table("lake.s3-clicks").scan().to_arrow()) == numbered(0, 50)


def bodies(table: pa.Table) -> list[bytes]:
    return sorted(table["body"].to_pylist())


def test_a_killed_application_goes_on_without_loss_or_doubles(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    topics = {"killed-a": "parquet", "killed-b": "delta", "killed-c": "iceberg"}
    words = ["--to", str(tmp_path), "--option", "maxOffsetsPerTrigger=40"]
    for topic, table_format in topics.items():
        words += ["--topic", f"{topic}={table_format}"]
    for total in (120, 240):
        for topic in topics:
            cluster.send(topic, numbered(total - 120, total))
        with serving(cluster, *words) as process:
            # In the midst of its turns: some micro-batches of each topic are there, and others are not.
            wait_until(partial(has_rows, tmp_path, topics, total - 80), process)
    with serving(cluster, *words) as process:
        wait_until(partial(has_rows, tmp_path, topics, 240), process)
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 0
    for topic, table_format in topics.items():
        assert sorted(body for _, body in table_rows(tmp_path / topic, table_format)) == numbered(0, 240)


def test_a_second_service_is_refused_and_a_failed_topic_ends_once_with_an_error(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.send("fine", numbered(0, 3))
    words = ["--to", str(tmp_path), "--topic", "fine=parquet"]
    with serving(cluster, *words) as process:
        wait_until(lambda: count_of(tmp_path / "fine") == 3, process)
        assert "another `lake serve` has these checkpoints" in serve_once(cluster, *words).stderr
    (tmp_path / "ruined").write_text("a file where the table should be")
    cluster.send("ruined", numbered(0, 3))
    cluster.send("fine", numbered(3, 6))
    done = serve_once(cluster, *words, "--topic", "ruined=parquet")
    assert done.returncode != 0
    assert "not written: ruined" in done.stderr, done.stdout
    assert re.search(r"topic ruined: failed 1 times, next try in 5 s: .+", done.stdout), done.stdout
    assert count_of(tmp_path / "fine") == 6


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.long)])
def test_many_topics_in_one_application(cluster: EmbeddedCluster, tmp_path: Path, count: int) -> None:
    topics = [f"many-{count}-{number:03d}" for number in range(count)]
    with Admin(namesrv=cluster.namesrv) as admin:
        for topic in topics:
            admin.create_topic(topic, queues=1, attributes="+lake.format=parquet")
    try:
        for number, topic in enumerate(topics):
            cluster.send(topic, numbered(number, number + 5))
        done = serve_once(cluster, "--to", str(tmp_path))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        found = {topic: sorted(body for _, body in table_rows(tmp_path / topic, "parquet")) for topic in topics}
        assert found == {topic: numbered(number, number + 5) for number, topic in enumerate(topics)}
    finally:
        with Admin(namesrv=cluster.namesrv) as admin:
            for topic in topics:
                admin.delete_topic(topic)


def test_a_service_over_spark_connect(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(CONNECT_SERVER)
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "server"), str(port)],
        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        words = ["--to", str(tmp_path / "lake"), "--topic", "connected=delta", "--master", f"sc://127.0.0.1:{port}"]
        for first, end in ((0, 20), (20, 30)):
            cluster.send("connected", numbered(first, end))
            done = serve_once(cluster, *words)
            assert done.returncode == 0, done.stdout + done.stderr
        assert sorted(body for _, body in table_rows(tmp_path / "lake" / "connected", "delta")) == numbered(0, 30)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


def test_the_command_ends_with_an_error_when_java_dies(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.send("orphaned", numbered(0, 5))
    with serving(cluster, "--to", str(tmp_path), "--topic", "orphaned=parquet") as process:
        wait_until(partial(has_rows, tmp_path, ["orphaned"], 5), process)
        os.kill(java_of(process.pid), signal.SIGKILL)
        cluster.send("orphaned", numbered(5, 10))
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 1
        assert "error: Spark has ended" in said
        assert "it goes on from its checkpoints" in said


def java_of(pid: int) -> int:
    """The Java process that this one has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"java" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0]:
            return int(child)
    raise AssertionError(f"process {pid} has no Java")
