"""Reads a topic from its start: how long behind their times (TIMER_DELIVER_MS) its messages were stored.

`python store_times.py NAMESRV TOPIC COUNT` prints the figures as JSON.
"""

from __future__ import annotations

import json
import sys

import uvloop

from rocketlake import PullConsumer, StoredMessage


def lateness(message: StoredMessage) -> int:
    return message.store_ms - int(message.properties["TIMER_DELIVER_MS"])


async def measure(namesrv: str, topic: str, count: int) -> None:
    late: list[int] = []
    async with PullConsumer("bench_store_times", namesrv=namesrv, auto_commit=False) as consumer:
        consumer.assign(await consumer.fetch_queues(topic))
        await consumer.seek_to_begin()
        while len(late) < count:
            late += map(lateness, await consumer.poll(timeout_ms=1000, max_messages=1000))
    late.sort()
    figures = {f"late_p{part}_ms": late[len(late) * part // 100] for part in (50, 99)}
    print(json.dumps(figures | {"late_max_ms": late[-1], "early": sum(each < 0 for each in late), "read": len(late)}))


if __name__ == "__main__":
    uvloop.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
