"""Apache's official Python client (rocketmq-python-client, gRPC): async sends of 1 KiB, or a counting push consumer."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from rocketmq import (  # type: ignore[import-not-found]  # the peer's package, in an environment of its own
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)

BODY = bytes(range(256)) * 4
OUTSTANDING = 256


def measure(count: list[int], warm: float, seconds: float, idle_seconds: float) -> None:
    """Figures of `count[0]` after the warm-up, until the time is up or nothing more comes."""
    time.sleep(warm)
    start, began, cpu = count[0], time.monotonic(), time.process_time()
    last, changed = start, began
    while (now := time.monotonic()) < began + seconds and now < changed + idle_seconds:
        time.sleep(0.05)
        if count[0] != last:
            last, changed = count[0], time.monotonic()
    messages = max(1, last - start)
    cpu = time.process_time() - cpu
    print(json.dumps({"messages_per_second": messages / (changed - began), "client_cpu_us": cpu * 1e6 / messages}))


def send(settings: ClientConfiguration, topic: str, warm: float, seconds: float) -> None:
    producer = Producer(settings, (topic,))
    producer.startup()
    room, count, failures = threading.Semaphore(OUTSTANDING), [0], [0]

    def done(future: object) -> None:
        if future.exception() is None:  # type: ignore[attr-defined]
            count[0] += 1
        else:
            failures[0] += 1
        room.release()

    def run() -> None:
        while True:
            room.acquire()
            message = Message()
            message.topic = topic
            message.body = BODY
            try:
                producer.send_async(message).add_done_callback(done)
            except Exception:
                failures[0] += 1
                room.release()

    threading.Thread(target=run, daemon=True).start()
    measure(count, warm, seconds, seconds)
    if failures[0] > count[0] / 100:
        sys.exit(f"{failures[0]} sends failed, {count[0]} did not")


def consume(settings: ClientConfiguration, topic: str, warm: float, seconds: float) -> None:
    count, lock, first = [0], threading.Lock(), threading.Event()

    class Counter(MessageListener):  # type: ignore[misc]
        def consume(self, message: Message) -> ConsumeResult:
            with lock:
                count[0] += len(message.body) == len(BODY)
            first.set()
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(settings, "bench_official", Counter(), {topic: FilterExpression()})
    consumer.startup()
    if not first.wait(60):
        sys.exit("no message in 60 s")
    measure(count, warm, seconds, 2.0)


def main() -> None:
    work, address, topic, warm, seconds = sys.argv[1:]
    settings = ClientConfiguration(address, Credentials())
    (send if work == "send" else consume)(settings, topic, float(warm), float(seconds))
    sys.stdout.flush()
    os._exit(0)  # its threads do not end by themselves


if __name__ == "__main__":
    main()
