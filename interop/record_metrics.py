"""Owns recording the metrics page of an Apache broker into tests/golden/metrics.txt, after a load of every kind.

Run by hand: `.venv/bin/python -m interop.record_metrics`. The samples are kept with the values they had.
"""

from __future__ import annotations

import asyncio
import tempfile
import urllib.request
from pathlib import Path

from interop.apache import apache_cluster, free_ports
from rocketlake import Consumer, Message, Producer, PushConsumer, StoredMessage, TransactionEnd, TransactionProducer
from rocketlake.client.consumer.listener import ConsumeResult

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "metrics.txt"
EXPECTED = ("rocketmq_consumer_lag_messages{", "rocketmq_messages_out_total{", "rocketmq_producer_connections{")
PAUSE_SECONDS = 2.0
TRIES = 30


async def load(namesrv: str, scrape: object) -> str:
    """Messages of each kind, consumers of each kind; the page while they are connected."""

    async def commit(_message: Message | StoredMessage) -> TransactionEnd:
        return TransactionEnd.COMMIT

    async def roll_back(_message: Message) -> TransactionEnd:
        return TransactionEnd.ROLLBACK

    async def fail(_messages: object) -> ConsumeResult:
        return ConsumeResult.later(delay_level=1)

    async with Producer("senders", namesrv=namesrv) as producer:
        for number in range(20):
            await producer.send(Message("orders", f"{number}".encode(), keys=f"k{number}"))
        await producer.send(Message("delayed", b"soon", delay_level=3))
        await producer.send(Message("timed", b"later", delay=60.0))
        async with TransactionProducer("bookers", check=commit, topics=["booked"], namesrv=namesrv) as transactions:
            await transactions.send_in_transaction(Message("booked", b"yes"), commit)
            await transactions.send_in_transaction(Message("booked", b"no"), roll_back)
            failing = PushConsumer("failing", namesrv=namesrv, listener=fail, from_where="first")
            failing.subscribe("orders")
            async with Consumer("kitchen", "orders", namesrv=namesrv, from_where="first") as consumer, failing:
                async for _message in consumer:
                    break
                return await page(scrape)


async def page(scrape: object) -> str:
    """The page, once it tells of consumers."""
    for _ in range(TRIES):
        await asyncio.sleep(PAUSE_SECONDS)
        text: str = await asyncio.to_thread(scrape)  # type: ignore[arg-type]
        if all(word in text for word in EXPECTED):
            return text
    raise RuntimeError(f"the page does not tell of {[word for word in EXPECTED if word not in text]}:\n{text[-2000:]}")


def main() -> None:
    (port,) = free_ports(1)
    settings: dict[str, object] = {
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "127.0.0.1",
        "metricsPromExporterPort": port,
    }

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    with (
        tempfile.TemporaryDirectory() as folder,
        apache_cluster(Path(folder), peer="server550", settings=settings) as cluster,
    ):
        GOLDEN.write_text(asyncio.run(load(cluster.namesrv, scrape)))


if __name__ == "__main__":
    main()
