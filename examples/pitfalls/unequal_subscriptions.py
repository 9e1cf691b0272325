"""Members of one group that subscribe to different tags lose messages: `python unequal_subscriptions.py NAMESRV`."""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Message, Producer, PushConsumer, StoredMessage


async def main(namesrv: str) -> None:
    """Two members want A and B; the queues are shared between them, whatever they want."""
    seen: list[bytes] = []

    async def note(messages: list[StoredMessage]) -> None:
        seen.extend(message.body for message in messages)

    members = [PushConsumer("mixed", namesrv=namesrv, listener=note) for _ in "AB"]
    for member, tag in zip(members, "AB", strict=True):
        member.subscribe("letters", tag)
    async with Producer("post", namesrv=namesrv) as producer:
        await producer.send(Message("letters", b"first, so that there is a topic"))
        async with members[0], members[1]:
            while any("letters" not in {queue.topic for queue in each.assignment} for each in members):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await asyncio.sleep(1)
            queues = await producer.queues("letters")
            for queue in queues:
                for tag in "AB":
                    await producer.send(Message("letters", tag.encode(), tags=tag), queue=queue)
            await asyncio.sleep(2)
    sent = 2 * len(queues)
    print(f"{sent} sent, {'all' if len(seen) == sent else 'not all'} seen")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
