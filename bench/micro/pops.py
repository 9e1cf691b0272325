"""`python -m bench.micro.pops`: CPU of the broker for a pop of 32 messages and its BATCH_ACK_MESSAGE, without sockets.

Owns        a broker in this process whose link is handed pops and acknowledgements, by runs (compiled form) and in the
    ordinary way.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies in rows of 32 of one queue, 8 queues, JSON header as Java sends it, a real store in memory; so many
consumers on one link. `--profile`: where the time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time

from bench.generator import Template
from bench.micro.in_process import GROUP, TOPIC, Nowhere, in_process
from rocketlake.client.calls.pop import handles
from rocketlake.client.calls.records import read_records
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.model.topic import TopicConfig
from rocketlake.net.server_link import ServerLink
from rocketlake.protocol.bodies.pop import AckEntry, BatchAckBody
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import FrameReader, decode_frame, encode_command
from rocketlake.protocol.headers.pop import PopHeader, PopReplyHeader
from rocketlake.protocol.request_code import RequestCode

QUEUES = 8
AT_ONCE = 32
MESSAGES = 64_000
WARM = MESSAGES // 10
CONSUMERS = (1, 16)


class Kept(Nowhere):
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.data: list[bytes | bytearray | memoryview] = []

    def writelines(self, list_of_data: object) -> None:
        self.data.extend(list_of_data)  # type: ignore[call-overload]

    def answers(self) -> list[Command]:
        """The answers since the last call."""
        stream = b"".join(self.data)
        self.data.clear()
        return [decode_frame(frame) for frame in FrameReader().feed(stream)]


def _frame(command: Command) -> bytes:
    return b"".join(map(bytes, encode_command(command, Codec.JSON)))


def _pop() -> bytes:
    header = PopHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=ANY_QUEUE,
        max_msg_nums=AT_ONCE,
        invisible_time=60_000,
        poll_time=1000,
        born_time=0,
        init_mode=0,
        exp="*",
        exp_type="TAG",
    )
    return _frame(Command.request(RequestCode.POP_MESSAGE, header))


def _acks(answer: Command) -> tuple[bytes, int]:
    """The request for all messages of an answer, and how many they are."""
    queue = MessageQueue(TOPIC, "", ANY_QUEUE)
    messages = read_records(answer.body_bytes, queue).messages
    found: dict[tuple[int, int], AckEntry] = {}
    bits: dict[tuple[int, int], int] = {}
    for handle in handles(answer.header(PopReplyHeader), messages, "b"):
        key = handle.queue_id, handle.start_offset
        bits[key] = bits.get(key, 0) | 1 << handle.offset - handle.start_offset
        found[key] = AckEntry(
            group=GROUP,
            invisible_ms=handle.invisible_ms,
            pop_ms=handle.pop_ms,
            queue_id=handle.queue_id,
            revive_queue=handle.revive_queue,
            start_offset=handle.start_offset,
            topic=TOPIC,
        )
    for key, entry in found.items():
        entry.bits = bits[key].to_bytes(-(-bits[key].bit_length() // 8), "little")
    body = BatchAckBody(acks=list(found.values()), broker_name="b").encode()
    return _frame(Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body)), len(messages)


async def _fed(link: ServerLink, chunk: bytes, taken: list[float], profiler: cProfile.Profile | None) -> None:
    began = time.process_time()
    if profiler is not None:
        profiler.enable()
    link.data_received(chunk)
    while link.unfinished:  # noqa: ASYNC110
        await asyncio.sleep(0)
    if profiler is not None:
        profiler.disable()
    taken[0] += time.process_time() - began


async def measure(consumers: int, *, by_runs: bool, profile: bool = False) -> tuple[float, float]:
    """Microseconds of CPU for a message: of pops, of acknowledgements."""
    async with in_process(fast_failure=False) as served:
        served.broker.topics.put(TopicConfig(TOPIC, read_queues=QUEUES, write_queues=QUEUES))
        filler, link, kept = served.link(), served.link(), Kept()
        link.connection_made(kept)
        template = Template(TOPIC, [queue for queue in range(QUEUES) for _ in range(AT_ONCE)], 1024)
        for first in range(0, MESSAGES, 64):
            filler.data_received(bytes(template.frames(first, 64)))
            while filler.unfinished:  # noqa: ASYNC110
                await asyncio.sleep(0)
        if not by_runs:
            served.serve_one_by_one()
        link.data_received(_pop())  # the group is new
        while not kept.data:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        kept.answers()
        profiler = cProfile.Profile() if profile else None
        pops, acks, done = [0.0], [0.0], 0
        while done < MESSAGES - consumers * AT_ONCE - AT_ONCE:
            warm = done < WARM
            await _fed(link, _pop() * consumers, pops, None if warm else profiler)
            found = [_acks(answer) for answer in kept.answers()]
            count = sum(messages for _, messages in found)
            if len(found) != consumers or not count:  # fewer messages come if some were not in memory
                raise RuntimeError(f"{len(found)} answers with {count} messages to {consumers} pops")
            await _fed(link, b"".join(frame for frame, _ in found), acks, None if warm else profiler)
            if [answer.code for answer in kept.answers()] != [0] * consumers:
                raise RuntimeError("an acknowledgement failed")
            if warm:
                pops[0] = acks[0] = 0.0
                first = done + count
            done += count
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    return pops[0] / (done - first) * 1e6, acks[0] / (done - first) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.pops")
    parser.add_argument("--profile", type=int, metavar="N", help="profile chunks of N requests")
    options = parser.parse_args()
    if options.profile:
        asyncio.run(measure(options.profile, by_runs=True, profile=True))
        return
    print(f"{'requests a chunk':>16} {'':>10} {'pop, us/message':>16} {'ack, us/message':>16}")
    for consumers in CONSUMERS:
        for by_runs, name in ((True, "by runs"), (False, "one by one")):
            found = [asyncio.run(measure(consumers, by_runs=by_runs)) for _ in range(3)]
            print(
                f"{consumers:16} {name:>10} {min(pop for pop, _ in found):16.2f} {min(ack for _, ack in found):16.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
