"""A sender that is faster than its broker is told so, in one place: `python busy.py NAMESRV`."""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Message, Producer, ProducerConfig, TooManySends


async def main(namesrv: str) -> None:
    """Send without waiting, more than `pending_sends_max`; then wait, as the error says."""
    taken = refused = 0
    config = ProducerConfig(pending_sends_max=100)
    async with Producer("shop", namesrv=namesrv, config=config) as producer:
        for number in range(150):
            try:
                producer.send_nowait(Message("fast", b"%d" % number))
                taken += 1
            except TooManySends:
                refused += 1
        await producer.flush()
    print(f"{taken} on their way, {refused} refused before they were sent")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
