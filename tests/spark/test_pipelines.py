"""The ten documented pipelines, as they stand in docs/pipelines, on small data; checks, bad rows, Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketlake import Message, Producer
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.base.errors import UsageError
from rocketlake.model.message import StoredMessage
from rocketlake.spark.lake.bodies.json_declared import DeclaredJson
from rocketlake.spark.pipeline.bodies import with_bodies
from rocketlake.spark.pipeline.check import check_cluster, check_plans, read_samples
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.model import Options, Source
from rocketlake.spark.pipeline.read import read_pipeline
from rocketlake.spark.pipeline.runner import PipelineFailed, PipelineRun
from rocketlake.spark.progress import LagListener
from rocketlake.spark.progress.totals import Lag
from rocketlake.testing.cluster import EmbeddedCluster
from tests.stored import all_stored

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "pipelines").glob("*.yaml"))
CITIES = ("Berlin", "Paris", "Bonn")
TAGS = ("paid", "cancelled", "returned", "open")
ORDERS = [
    {"id": n, "amount": n * 10.0, "city": CITIES[n % 3], "at": f"2026-11-21T{10 + n // 20:02d}:{n % 20:02d}:00Z"}
    for n in range(60)
]
BAD = {
    b"garbage": "body does not fit schema",
    b'{"id": "x"}': "body does not fit schema",
    b"\xff{}": "body is not UTF-8",
}
FLIGHTS = [
    {"year": 2013, "month": n % 2 + 1, "carrier": "UA", "dep_delay": n, "time_hour": "2013-01-01T05:00:00Z"}
    for n in range(10)
]


def send(cluster: EmbeddedCluster, topic: str, bodies: list[bytes], tags: tuple[str, ...] = ("A",)) -> None:
    async def work() -> None:
        async with Producer("sender", namesrv=cluster.namesrv) as producer:
            messages = [
                Message(topic, body, tags=tags[n % len(tags)], keys=f"k{n}", properties={"number": str(n)})
                for n, body in enumerate(bodies)
            ]
            await asyncio.gather(*(producer.send(message, timeout_ms=30_000) for message in messages))

    cluster.run(work())


async def create_topic(namesrv: str, topic: str) -> None:
    async with Cluster(namesrv) as admin:
        await admin.create_topic(TopicPlan(topic, 4, 6))


def messages(cluster: EmbeddedCluster, topic: str) -> list[StoredMessage]:
    return cluster.run(all_stored(cluster.namesrv, topic))


@dataclass
class World:
    spark: SparkSession
    cluster: EmbeddedCluster
    lake: Path
    environment: Environment

    def run(self, name: str) -> dict[str, Lag]:
        """Run docs/pipelines/<name>.yaml over what is there; how its queries did."""
        pipeline = replace(
            read_pipeline(ROOT / "docs" / "pipelines" / f"{name}.yaml"),
            checkpoint=str(self.lake / "checkpoints" / name),
        )
        listener = LagListener()
        run = PipelineRun(self.spark, pipeline, self.environment)
        run.start(once=True)
        run.wait()
        run.report_to(listener.add)
        return listener.lags()

    def table(self, name: str) -> list[Any]:
        return self.spark.read.parquet(str(self.lake / name)).collect()


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pipelines")
    with EmbeddedCluster(folder / "cluster") as cluster:
        send(cluster, "orders", [json.dumps(order).encode() for order in ORDERS], TAGS)
        send(cluster, "events", [json.dumps(order).encode() for order in ORDERS[:20]] + list(BAD))
        send(cluster, "flights", [json.dumps(flight).encode() for flight in FLIGHTS], ("UA",))
        for topic in ("berlin_orders", "orders_again"):
            cluster.run(create_topic(cluster.namesrv, topic))  # effectively_once needs them
        stored = sorted(message.store_ms for message in messages(cluster, "orders"))
        variables = {
            "NAMESRV_ADDR": cluster.namesrv,
            "LAKE": str(folder / "lake"),
            "STORE": str(cluster.root / "store"),
            "FROM": str(stored[0]),
            "UNTIL": str(stored[-1]),
        }
        world = World(spark, cluster, folder / "lake", Environment(variables))
        yield world


def test_there_are_ten_and_none_is_long() -> None:
    assert len(FILES) >= 10
    assert {
        file.name: len(file.read_text().splitlines()) for file in FILES if len(file.read_text().splitlines()) > 15
    } == {}
    assert all(file.read_text().startswith("# ") for file in FILES)


def test_flights(world: World) -> None:
    world.run("flights")
    rows = world.table("table")
    assert sorted((row.month, row.dep_delay, row.tags) for row in rows) == sorted(
        (n % 2 + 1, n, "UA") for n in range(10)
    )
    assert sorted(path.name for path in (world.lake / "table").glob("month=*")) == ["month=1", "month=2"]


def test_topic_to_lake(world: World) -> None:
    lag = world.run("topic_to_lake")["topic_to_lake.main"]
    assert (lag.rows, lag.total_behind, lag.bad_rows) == (60, 0, 0)
    rows = world.spark.read.format("rocketmq_lake").load(str(world.lake / "orders")).collect()
    assert sorted(json.loads(row.body)["id"] for row in rows) == [*range(60)]
    assert {row.tags for row in rows} == set(TAGS)


def test_json_to_delta_with_dead_letters_in_a_topic(world: World) -> None:
    world.run("json_to_delta")
    from deltalake import DeltaTable

    assert sorted(DeltaTable(world.lake / "orders_delta").to_pyarrow_table()["id"].to_pylist()) == [*range(20)]
    letters = messages(world.cluster, "events_dlq")
    assert {letter.body: letter.properties["reason"] for letter in letters} == BAD
    assert all(letter.properties["dlq_topic"] == "events" for letter in letters)


def test_json_to_iceberg(world: World) -> None:
    world.run("json_to_iceberg")
    rows = world.spark.read.format("rocketmq_lake").load(str(world.lake / "large_orders")).collect()
    assert sorted(row.id for row in rows) == [*range(10, 60)]
    assert {row.city for row in rows} == set(CITIES)


def test_filter_to_topic(world: World) -> None:
    world.run("filter_to_topic")
    wanted = [n for n in range(60) if n % 4 == 0 and n % 3 == 0]
    found = messages(world.cluster, "berlin_orders")
    assert sorted(json.loads(message.body)["id"] for message in found) == wanted
    assert {message.tags for message in found} == {"paid"}
    assert json.loads(found[0].body).keys() == {"id", "amount"}


def test_dead_letters(world: World) -> None:
    lags = world.run("dead_letters")
    assert {name: (lag.rows, lag.bad_rows) for name, lag in lags.items()} == {
        "dead_letters.main": (23, 3), "dead_letters.dlq": (23, 3)
    }  # fmt: skip
    assert sorted(row.id for row in world.table("events")) == [*range(20)]
    bad = world.table("events_bad")
    assert {bytes(row.body): row.reason for row in bad} == BAD
    assert all(row.topic == "events" and row.queueOffset is not None for row in bad)


def test_route_by_tag(world: World) -> None:
    world.run("route_by_tag")
    assert len(messages(world.cluster, "paid_orders")) == 15
    assert sorted(row.tags for row in world.table("undone")) == ["cancelled"] * 15 + ["returned"] * 15
    assert [row.tags for row in world.table("other")] == ["open"] * 15


def test_store_to_lake(world: World) -> None:
    world.run("store_to_lake")
    rows = world.spark.read.format("rocketmq_lake").load(str(world.lake / "backfill")).collect()
    assert sorted(json.loads(row.body)["id"] for row in rows) == [*range(60)]
    world.run("store_to_lake")
    again = world.spark.read.format("rocketmq_lake").load(str(world.lake / "backfill")).count()
    assert again == 60


def test_window_counts(world: World) -> None:
    world.run("window_counts")
    found = [json.loads(message.body) for message in messages(world.cluster, "turnover")]
    # The last hour is still open: an event of 13 h would close it.
    hours = {(each["hour"][11:13], each["city"]): each["orders"] for each in found}
    assert hours == {(hour, city): sum(
        order["city"] == city and order["at"][11:13] == hour for order in ORDERS
    ) for hour in ("10", "11") for city in CITIES}  # fmt: skip


def test_replay_to_topic(world: World) -> None:
    world.run("replay_to_topic")
    originals = messages(world.cluster, "orders")
    end = max(message.store_ms for message in originals)
    copies = messages(world.cluster, "orders_again")
    wanted = sorted(message.body for message in originals if message.store_ms < end)
    assert sorted(copy.body for copy in copies) == wanted
    assert all(copy.properties["number"] for copy in copies)


def yaml(folder: Path, text: str) -> Path:
    path = folder / "p.yaml"
    path.write_text(text)
    return path


SOURCE = """\
source: {namesrvAddr: "${NAMESRV_ADDR}", subscribe: events, startingOffsets: earliest, body: json,
  schema: "id bigint, amount double"}
"""


def test_a_bad_row_ends_a_pipeline_that_may_not_skip_it(world: World, tmp_path: Path) -> None:
    path = yaml(tmp_path, SOURCE + "transform: select id from source where amount > 1e9\nsink: {format: noop}\n")
    run = PipelineRun(world.spark, read_pipeline(path), world.environment)
    run.start(once=True)
    with pytest.raises(PipelineFailed, match=r"body .* at events/broker-a/\d/\d.*onError"):
        run.wait()


def test_a_check_plans_everything_and_shows_rows(world: World, tmp_path: Path) -> None:
    path = yaml(tmp_path, SOURCE + "transform: select id, amount * 2 as twice from source\nsink: {topic: out}\n")
    pipeline = read_pipeline(path)
    findings, topics = check_cluster(pipeline, world.environment)
    assert [finding.text for finding in findings] == [
        "topic events: 4 queues, 23 messages",
        "sink main: topic out does not exist; the broker makes it if it may",
    ]
    (plan,) = check_plans(world.spark, pipeline, world.environment)
    assert plan.text == "query main: rocketmq, columns body"
    good, bad = read_samples(world.spark, pipeline, world.environment, topics)
    assert good.schema == "body string"
    assert set(json.loads(good.rows[0][0])) == {"id", "twice"}
    assert {row[0] for row in bad.rows} <= set(BAD.values())
    assert len(good.rows) + len(bad.rows) == 10


@pytest.mark.parametrize(
    ("rest", "line", "words"),
    [
        ("transform: select idd from source\nsink: {format: noop}\n", 3, "idd.*UNRESOLVED_COLUMN"),
        ("transform: selec id from source\nsink: {format: noop}\n", 3, "PARSE_SYNTAX_ERROR"),
        ("transform: select id from elsewhere\nsink: {format: noop}\n", 3, "TABLE_OR_VIEW_NOT_FOUND"),
        ("transform: select count(*) as n from source group by id\nsink: {format: noop}\n", 4, "(?i)append"),
        ("sink: {format: parquet, path: /x, partitionBy: nowhere}\n", 3, "nowhere"),
        ("route:\n- {where: idd > 1, sink: {format: noop}}\n", 4, "idd"),
        ("route:\n- sink: {format: noop}\n  where: idd > 1\n", 5, "idd"),
        ("transform: |\n\n  select\n    id,\n    idd\n  from source\nsink: {format: noop}\n", 7, "idd"),
        ("transform: >-\n  select id,\n    amount\n\n  from elsewhere\nsink: {format: noop}\n", 7, "elsewhere"),
        ("transform:\n  a: select id\n    from source\n    wher id = 1\nsink: {format: noop}\n", 6, "PARSE_SYNTAX"),
        ("sink:\n  format: rocketmq_lake\n  path: /x\n  tableFormat: hudi\n", 6, "one of parquet, delta, iceberg"),
        ("sink:\n  format: rocketmq_lake\n  path: /x\n  partitionBy: nowhere\n", 6, "no column of the table"),
        ("sink:\n  topic: out\n  onInvalidRow: drop\n", 5, "one of fail, skip, dlq"),
        ("onError:\n  dlq:\n    topic: out\n    inFlight: none\nsink: {format: noop}\n", 6, "inFlight"),
    ],
)
def test_a_check_names_the_line_of_what_spark_refuses(
    world: World, tmp_path: Path, rest: str, line: int, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        check_plans(world.spark, read_pipeline(yaml(tmp_path, SOURCE + rest)), world.environment)
    assert refused.value.where == f"p.yaml, line {line}"


def test_a_check_names_the_line_of_a_wrong_value_in_the_source(world: World, tmp_path: Path) -> None:
    text = "source:\n  namesrvAddr: ${NAMESRV_ADDR}\n  subscribe: events\n  body: json\n  schema: id bigint\n"
    for wrong, line in (("  startingOffsets: soon\n", 6), ("  failOnDataLoss: maybe\n", 6)):
        pipeline = read_pipeline(yaml(tmp_path, text + wrong + "sink: {format: noop}\n"))
        with pytest.raises(UsageError, match=wrong.split()[1]) as refused:
            check_plans(world.spark, pipeline, world.environment)
        assert refused.value.where == f"p.yaml, line {line}"
    pipeline = read_pipeline(
        yaml(tmp_path, text.replace("bigint", "bigin") + "  startingOffsets: earliest\nsink: {format: noop}\n")
    )
    with pytest.raises(UsageError, match="schema cannot be read") as refused:
        check_plans(world.spark, pipeline, world.environment)
    assert refused.value.where == "p.yaml, line 5"


def test_a_body_that_is_no_json_is_as_bad_as_for_a_lake_table(world: World) -> None:
    ddl = "id bigint, price double, name string"
    texts = [
        '{"id": 1, "price": 1.5, "name": "NaN"}', '{"price": NaN}', '{"price": -Infinity}', '{"price": "NaN"}',
        "{'id': 1}", '{"id": 01}', '[{"id": 1}]', "{id: 1}", '{"id": 1,}', "null",
    ]  # fmt: skip
    bodies = [text.encode() for text in texts]
    frame = world.spark.createDataFrame([(bytearray(body),) for body in bodies], "body binary").coalesce(1)
    rows = with_bodies(frame, Source("rocketmq", Options(), "json", ddl)).collect()
    found = [text for text, row in zip(texts, rows, strict=True) if row["_bad"] is not None]
    parsed = DeclaredJson(ddl).parse(bodies, lambda wanted: wanted)
    assert found == [texts[number] for number in sorted(parsed.bad)]


def test_what_came_from_the_environment_is_not_in_plans(world: World, tmp_path: Path) -> None:
    text = (
        'source: {format: rate, read: stream, rowsPerSecond: "${RATE}"}\nsink: {format: noop, secretThing: "${KEY}"}\n'
    )
    environment = Environment({"RATE": "77123", "KEY": "s3cr3t-value"})
    (flow,) = PipelineRun(world.spark, read_pipeline(yaml(tmp_path, text)), environment).flows
    plan = flow.rows._jdf.queryExecution().toString()
    assert "77123" not in plan


def test_no_secret_is_written_anywhere(world: World, tmp_path: Path) -> None:
    """Event log, checkpoint, Java's log, what the terminal shows: a secret of the environment is in none of them."""
    events = tmp_path / "events"
    events.mkdir()
    sink = f'sink: {{format: parquet, path: {tmp_path}/out, password: "${{SECRET}}"}}\ncheckpoint: {tmp_path}/kept\n'
    path = yaml(tmp_path, SOURCE + sink + "onError: skip\n")
    log = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
    settings = " ".join(f"--conf spark.eventLog.{name}={value}" for name, value in log.items())
    environment = os.environ | {
        "NAMESRV_ADDR": world.cluster.namesrv,
        "SECRET": "s3cr3t-value",
        "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "rocketlake", "pipeline", "run", str(path), "--once", "--master", "local[1]"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    written = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != path}
    logged = b"".join(content for file, content in written.items() if events in file.parents)
    assert b"FileSink" in logged, "the event log does not hold the plan"
    assert any("offsets" in file.parts for file in written), "Spark wrote no checkpoint"
    said = written | {Path("stdout"): done.stdout, Path("stderr"): done.stderr}
    assert [str(file) for file, content in said.items() if b"s3cr3t-value" in content] == []


def test_control_c_ends_it_in_good_order(world: World, tmp_path: Path) -> None:
    path = yaml(tmp_path, SOURCE + f"sink: {{format: parquet, path: {tmp_path}/out}}\nonError: skip\n")
    environment = os.environ | {"NAMESRV_ADDR": world.cluster.namesrv}
    command = [sys.executable, "-m", "rocketlake", "pipeline", "run", str(path), "--master", "local[1]"]
    process = subprocess.Popen(
        [*command, "--metrics-port", "0"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert line.startswith("p.main: rows 23"), errors
    assert process.returncode == 0, errors
    assert "metrics at http://127.0.0.1:" in errors
    assert "Traceback" not in output + errors
    assert len(world.spark.read.parquet(str(tmp_path / "out")).collect()) == 20
