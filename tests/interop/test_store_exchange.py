"""One store directory under two brokers by turns: Apache's writes, ours goes on, Apache's reads all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.apache import ApacheCluster, apache_cluster, run_driver
from rocketlake.codec.record import decode_record
from rocketlake.spark.scan.options import parse_options
from rocketlake.spark.scan.tables import COLUMNS_OF, batches_of, parts_of
from rocketlake.spark.scan.wanted import wanted_of
from rocketlake.spark.schema import arrow_schema, chosen_schema
from rocketlake.store.reader import StoreReader
from tests.crash.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "brokerName": "moved",
    "brokerIP1": "127.0.0.1",
}


def produce(cluster: ApacheCluster, count: int) -> None:
    assert run_driver("Produce", cluster.namesrv, "Moved", "sync", count, 500, "A,B") == {"sent": count, "failed": 0}


def consume(cluster: ApacheCluster, group: str, count: int) -> dict[str, int]:
    return run_driver("Consume", cluster.namesrv, "Moved", group, "*", "concurrent", count, 60, 0)


def scanned_bodies(store: Path) -> dict[tuple[int, int], bytes]:
    """What the Spark scan finds of the topic, by its queues and, again, in the log itself."""
    found = []
    for use_indexes in ("true", "false"):
        options = parse_options(
            {"path": str(store), "topics": "Moved", "useIndexes": use_indexes, "maxHashSlotNum": "1000"}
        )
        schema = arrow_schema(chosen_schema("queueId,queueOffset,body", COLUMNS_OF["messages"]))
        wanted = wanted_of(options)
        batches = [each for part in parts_of(options, wanted) for each in batches_of(options, wanted, schema, part)]
        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        assert len({row[:2] for row in rows}) == len(rows)
        found.append({(queue_id, offset): body for queue_id, offset, body in rows})
    assert found[0] == found[1]
    return found[0]


def read_bodies(store: Path) -> dict[tuple[int, int], bytes]:
    """The same by the reader of our store."""
    reader = StoreReader(store)
    records = {
        (queue_id, offset): decode_record(record).body
        for queue_id in reader.queue_ids("Moved")
        for start, end in (reader.queue_range("Moved", queue_id),)
        for offset, record in zip(range(start, end), reader.records("Moved", queue_id, start, end), strict=True)
    }
    reader.close()
    return records


def test_a_store_moves_from_apache_to_us_and_back(apache_jars: None, tmp_path: Path) -> None:
    with apache_cluster(tmp_path, settings=SIZES) as cluster:
        produce(cluster, 3000)
        assert consume(cluster, "mover", 3000)["distinct"] == 3000
        scanned_live = scanned_bodies(cluster.store)
        cluster.stop_broker()
        assert scanned_live == scanned_bodies(cluster.store) == read_bodies(cluster.store)

        here = {"namesrvAddr": cluster.namesrv, "storePathRootDir": cluster.store}
        ours = BrokerProcess(tmp_path / "ours", **SIZES, **here)
        with ours.running():
            # The group goes on where it stopped: nothing comes twice, the new ones come.
            produce(cluster, 1000)
            again = consume(cluster, "mover", 1000)
            assert (again["distinct"], again["duplicates"]) == (1000, 0)
            from_start = consume(cluster, "late_reader", 3000)
            assert (from_start["distinct"], from_start["duplicates"]) == (3000, 1000)
        assert scanned_bodies(cluster.store) == read_bodies(cluster.store)

        cluster.start_broker()
        back = consume(cluster, "reader_after_return", 3000)
        assert (back["distinct"], back["duplicates"]) == (3000, 1000)
        nothing_new = run_driver("Consume", cluster.namesrv, "Moved", "late_reader", "*", "concurrent", 1, 8, 0)
    assert nothing_new["distinct"] == 0
