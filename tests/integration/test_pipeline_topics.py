"""What `rocketlake pipeline check` asks of a cluster, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.client.config import ClientConfig
from rocketlake.spark.pipeline.check import check_cluster
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.read import read_pipeline
from rocketlake.spark.pipeline.topics import offsets_option, sample_topics, topics_like
from rocketlake.testing.cluster import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.send("orders", [b"%d" % n for n in range(20)], queue=1)
        cluster.send("orders", [b"x"], queue=0)
        cluster.send("orders-2", [b"x"])
        yield cluster


def test_a_sample_is_the_newest_of_each_queue(cluster: EmbeddedCluster) -> None:
    (sample,) = sample_topics(ClientConfig(namesrv=cluster.namesrv), ["orders"], 12)
    assert sample.messages == 21
    assert offsets_option([sample], 1) == '{"orders": {"broker-a": {"0": 0, "1": 17, "2": 0, "3": 0}}}'
    assert offsets_option([sample], 2) == '{"orders": {"broker-a": {"0": 1, "1": 20, "2": 0, "3": 0}}}'


def test_a_topic_nobody_knows(cluster: EmbeddedCluster) -> None:
    (sample,) = sample_topics(ClientConfig(namesrv=cluster.namesrv), ["nothing"], 10)
    assert sample.queues is None


def test_patterns_are_of_whole_names(cluster: EmbeddedCluster) -> None:
    assert topics_like(ClientConfig(namesrv=cluster.namesrv), "orders") == ["orders"]
    assert topics_like(ClientConfig(namesrv=cluster.namesrv), "orders.*") == ["orders", "orders-2"]
    with pytest.raises(UsageError, match="subscribePattern"):
        topics_like(ClientConfig(namesrv=cluster.namesrv), "(")


def pipeline(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(f"source: {{namesrvAddr: '${{NAMESRV}}', {source}}}\nsink: {{topic: orders}}\n")
    return path


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("subscribe: orders", "topic orders: 4 queues, 21 messages"),
        ("subscribe: nothing", "topic nothing does not exist"),
        ("subscribePattern: 'orders-.*'", "topic orders-2: 4 queues, 1 messages"),
        ("subscribePattern: zzz", "no topic matches now"),
        ("assign: {orders: {broker-a: [0]}}", "topic orders: 4 queues"),
    ],
)
def test_topics_are_looked_up(cluster: EmbeddedCluster, tmp_path: Path, source: str, words: str) -> None:
    findings, _ = check_cluster(read_pipeline(pipeline(tmp_path, source)), Environment({"NAMESRV": cluster.namesrv}))
    assert findings[0].text.startswith(words)
    assert findings[-1].text == "sink main: topic orders has 4 queues"


def test_a_cluster_that_does_not_answer_is_a_warning_without_its_address(tmp_path: Path) -> None:
    environment = Environment({"NAMESRV": "127.0.0.1:1"})
    (finding,), topics = check_cluster(read_pipeline(pipeline(tmp_path, "subscribe: t")), environment)
    assert (finding.good, topics) == (False, [])
    assert "was not asked" in finding.text
    assert "127.0.0.1:1" not in finding.text


def test_a_source_without_a_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("source: {subscribe: t}\nsink: {format: console}\n")
    with pytest.raises(UsageError, match="name server is not given") as refused:
        check_cluster(read_pipeline(path), Environment({}))
    assert refused.value.where == "p.yaml, line 1"
