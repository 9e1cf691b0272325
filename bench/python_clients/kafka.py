"""Confluent's Python client of Kafka (confluent-kafka, librdkafka): one producer with its default batches, 1 KiB."""

from __future__ import annotations

import json
import os
import sys
import time

from confluent_kafka import Producer  # type: ignore[import-not-found]  # the peer's, in an environment of its own

BODY = bytes(range(256)) * 4


def main() -> None:
    servers, topic, warm, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    acknowledged = failed = 0

    def done(error: object, message: object) -> None:
        nonlocal acknowledged, failed
        if error is None:
            acknowledged += 1
        else:
            failed += 1

    producer = Producer({"bootstrap.servers": servers})

    def send_until(end: float) -> None:
        while time.monotonic() < end:
            for _ in range(100):
                try:
                    producer.produce(topic, BODY, on_delivery=done)
                except BufferError:  # its buffer is full
                    producer.poll(0.01)
            producer.poll(0)

    send_until(time.monotonic() + warm)
    start, began, cpu = acknowledged, time.monotonic(), time.process_time()
    send_until(began + seconds)
    messages, took, cpu = acknowledged - start, time.monotonic() - began, time.process_time() - cpu
    if failed or not messages:
        sys.exit(f"{failed} sends failed, {messages} did not")
    print(json.dumps({"messages_per_second": messages / took, "client_cpu_us": cpu * 1e6 / messages}), flush=True)
    os._exit(0)  # what is in its buffer is not waited for


if __name__ == "__main__":
    main()
