"""The attributes of a topic that is a table, beside Apache's broker: kept in its file, and refused when it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.apache import apache_cluster
from rocketlake.admin import TopicChange
from rocketlake.admin.sync import Admin
from rocketlake.base.errors import RemoteError
from rocketlake.spark.pipeline.serving.looks import look
from rocketlake.spark.pipeline.serving.wanted import Listed, listed_words
from tests.crash.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

NAMES: dict[str, object] = {"brokerName": "tabled", "brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": 1 << 20}


def test_apaches_broker_keeps_a_table_that_ours_was_told_and_takes_no_new_one(
    apache_jars: None, tmp_path: Path
) -> None:
    with apache_cluster(tmp_path, settings=NAMES) as cluster:
        with Admin(namesrv=cluster.namesrv) as admin:
            admin.create_topic("Orders", queues=2)
            admin.create_topic("Plain", queues=2)
            with pytest.raises(RemoteError, match=r"unsupported key: lake\.format"):
                admin.alter_topic("Plain", TopicChange(attributes="+lake.format=delta"))
        cluster.stop_broker()

        ours = BrokerProcess(tmp_path / "ours", **NAMES, namesrvAddr=cluster.namesrv, storePathRootDir=cluster.store)
        with ours.running(), Admin(namesrv=cluster.namesrv) as admin:
            admin.alter_topic("Orders", TopicChange(attributes="+lake.format=delta,+lake.keep.days=30"))

        cluster.start_broker()
        with Admin(namesrv=cluster.namesrv) as admin:
            assert admin.topic_settings()["Orders"]["tabled"].attributes == {
                "lake.format": "delta",
                "lake.keep.days": "30",
            }
        assert sorted(look(cluster.namesrv, Listed()).wanted) == ["Orders"]
        seen = look(cluster.namesrv, listed_words(["Plain=parquet"], {}))
        assert sorted(seen.wanted) == sorted(seen.next_offsets) == ["Orders", "Plain"]
