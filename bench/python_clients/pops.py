"""Pops a topic from its start, 32 at a time, and acknowledges each batch in one request; or keeps what it popped.

`python pops.py BROKER TOPIC GROUP WORKERS [COUNT]`: with COUNT it acknowledges nothing, and ends when it holds so many
messages, invisible for hours. Prints "ms=T popped=N acked=N" every half second, from the first message on.

It takes the handles from the header of an answer, and does not look at the records: a consumer that reads them takes as
much CPU as a broker, and would be what is measured.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from rocketlake.client.calls.pop import POP_MAX
from rocketlake.model.pop import ANY_QUEUE, NO_RETRY
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.pop import AckEntry, BatchAckBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pop import PopHeader, PopReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

INVISIBLE_MS = 60_000
HELD_MS = 6 * 3600_000


class Load:
    def __init__(self, broker: str, topic: str, group: str, count: int) -> None:
        self._broker, self._topic, self._group, self._count = broker, topic, group, count
        self.popped = self.acked = 0

    async def work(self, net: NetClient) -> None:
        while not self._count or self.popped < self._count:
            answer = await net.invoke(self._broker, self._pop(), 20_000)
            if answer.code != ResponseCode.SUCCESS:
                continue
            entries, count = self._acks(answer.header(PopReplyHeader))
            self.popped += count
            if not self._count:
                body = BatchAckBody(acks=entries, broker_name="").encode()
                done = await net.invoke(self._broker, Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body), 20_000)
                if done.code != ResponseCode.SUCCESS:
                    raise SystemExit(f"acknowledgements are answered by {done.code}: {done.remark}")
                self.acked += count

    def _pop(self) -> Command:
        header = PopHeader(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=ANY_QUEUE,
            max_msg_nums=POP_MAX,
            invisible_time=HELD_MS if self._count else INVISIBLE_MS,
            poll_time=1000,
            born_time=0,
            init_mode=0,
            exp="*",
            exp_type="TAG",
        )
        return Command.request(RequestCode.POP_MESSAGE, header)

    def _acks(self, reply: PopReplyHeader) -> tuple[list[AckEntry], int]:
        """An entry for the messages of each queue, and how many messages there are in all."""
        starts = dict(part.rsplit(" ", 1) for part in (reply.start_offset_info or "").split(";"))
        entries, count = [], 0
        for part in (reply.msg_offset_info or "").split(";"):
            queue, _, text = part.rpartition(" ")
            mark, _, queue_id = queue.partition(" ")
            if mark != NO_RETRY:
                raise SystemExit("messages came again: the machine is too slow for this load")
            start, bits = int(starts[queue]), 0
            for offset in text.split(","):
                bits |= 1 << int(offset) - start
                count += 1
            entries.append(
                AckEntry(
                    bits=bits.to_bytes(-(-bits.bit_length() // 8), "little"),
                    group=self._group,
                    invisible_ms=reply.invisible_time,
                    pop_ms=reply.pop_time,
                    queue_id=int(queue_id),
                    revive_queue=reply.revive_qid,
                    start_offset=start,
                    topic=self._topic,
                )
            )
        return entries, count

    async def say(self) -> None:
        while True:
            if self.popped:
                print(f"ms={time.time() * 1000:.0f} popped={self.popped} acked={self.acked}", flush=True)
            await asyncio.sleep(0.5)


async def main(broker: str, topic: str, group: str, workers: str, count: str = "0") -> None:
    load = Load(broker, topic, group, int(count))
    async with NetClient() as net, asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(load.say())
        working = [tasks.create_task(load.work(net)) for _ in range(int(workers))]
        await asyncio.wait(working)
        saying.cancel()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
