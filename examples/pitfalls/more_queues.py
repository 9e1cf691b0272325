"""More queues send equal keys to other queues: `python more_queues.py`. It needs no broker."""

from __future__ import annotations

from rocketlake import Message, MessageQueue
from rocketlake.client.producer.queue_choice import by_key


def main() -> None:
    """Count the keys that change their queue when a topic of four queues gets a fifth."""
    queues = [MessageQueue("orders", "broker-a", number) for number in range(5)]
    keys = [f"customer-{number}" for number in range(1000)]

    def queue_of(key: str, count: int) -> MessageQueue:
        return by_key(key)(queues[:count], Message("orders", b"x"))

    moved = [key for key in keys if queue_of(key, 4) != queue_of(key, 5)]
    print(f"{len(moved)} of {len(keys)} keys go to another queue")


if __name__ == "__main__":
    main()
