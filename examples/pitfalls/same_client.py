"""Two members with one client id both get all queues: `python same_client.py NAMESRV`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from rocketlake import ClientConfig, Message, MessageQueue, Producer, PushConsumer, StoredMessage


def queues_of(member: PushConsumer) -> list[MessageQueue]:
    """The queues of the topic that this member reads; the other one brings retries."""
    return [queue for queue in member.assignment if not queue.topic.startswith("%RETRY%")]


async def times_seen(namesrv: str, group: str, names: tuple[str, str]) -> int:
    """How often a message was seen that came most often, by two members with these instance names."""
    seen: Counter[bytes] = Counter()
    came = asyncio.Event()

    async def count(messages: list[StoredMessage]) -> None:
        seen.update(message.body for message in messages if message.body.isdigit())
        if sum(seen.values()) >= 8 * (1 + (names[0] == names[1])):
            came.set()

    members = []
    for name in names:
        config = ClientConfig(namesrv=namesrv, instance_name=name)
        member = PushConsumer(group, client_config=config, listener=count)
        member.subscribe(f"jobs_of_{group}")
        members.append(member)
    async with Producer("boss", namesrv=namesrv) as producer:
        await producer.send(Message(f"jobs_of_{group}", b"first, so that there is a topic"))
        async with members[0], members[1]:
            while names[0] != names[1] and {len(queues_of(member)) for member in members} != {2}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            for number in range(8):
                await producer.send(Message(f"jobs_of_{group}", b"%d" % number))
            await asyncio.wait_for(came.wait(), 60)
    return max(seen.values())


async def main(namesrv: str) -> None:
    """Two pairs of members: of one name, and of two."""
    print("one name: each message is seen", await times_seen(namesrv, "pair", ("worker", "worker")), "times")
    print("two names:", await times_seen(namesrv, "team", ("worker-1", "worker-2")), "time")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
