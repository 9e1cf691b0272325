"""`rocketlake replay`: a time range of a topic once more.

Owns        options and output of this command.
Must not know   how a message is known to be replayed (rocketlake.spark.replay).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run

if TYPE_CHECKING:
    from rocketlake.spark.replay.copy_topic import CopyProgress
    from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["replay"]

_TIME = "2026-11-21T10:00:00 (UTC without a zone) or ms since 1970."


def replay(
    topic: Annotated[str, typer.Argument(help="Topic to read.", show_default=False)],
    to_topic: Annotated[str, typer.Option("--to-topic", help="Copy into this topic; made if it does not exist.")] = "",
    group: Annotated[str, typer.Option("--group", help="Or: set this group, which must not be running, back.")] = "",
    from_time: Annotated[str, typer.Option("--from", help=f"Stored at or after: {_TIME}")] = "",
    until_time: Annotated[str, typer.Option("--until", help="Stored before; default: now, at the first run.")] = "",
    tags: Annotated[str, typer.Option("--tags", "-t", help="Only these tags, 'TagA || TagB'.")] = "",
    sql92: Annotated[str, typer.Option("--sql92", help="Only what this expression on properties passes.")] = "",
    state: Annotated[
        Path | None, typer.Option("--state", help="Folder for records of replays; default ~/.local/state/rocketlake.")
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Replay messages into another topic, each once however often this is run; or set a stopped group back."""
    from rocketlake.base.errors import UsageError
    from rocketlake.spark.replay.record import default_folder
    from rocketlake.spark.replay.request import ReplayRequest, parse_time

    if bool(to_topic) == bool(group):
        raise UsageError("where shall the messages go?", hint="--to-topic NAME, or --group NAME")
    from_ms, until_ms = parse_time(from_time), parse_time(until_time)
    if group:
        if until_time or tags or sql92:
            hint = (
                "a group reads on to the end, unfiltered; --to-topic copies a part, for a group that subscribes there"
            )
            raise UsageError("a group can be set back only to a time", hint=hint)
        run(_reset(namesrv, group, topic, from_ms))
        return
    request = ReplayRequest(topic, to_topic, from_ms, until_ms, tags, sql92)
    request.check()
    run(_copy(namesrv, request, (state or default_folder()) / f"{request.identity}.json"))


async def _reset(namesrv: str, group: str, topic: str, from_ms: int) -> None:
    from rocketlake.client.config import ClientConfig
    from rocketlake.client.instance import ClientInstance
    from rocketlake.spark.replay.group_reset import reset_group

    client = ClientInstance(ClientConfig(namesrv=namesrv))
    await client.start()
    try:
        offsets = await reset_group(client, group, topic, from_ms)
    finally:
        await client.stop()
    for queue, offset in offsets.items():
        typer.echo(f"{group} reads {topic}, {queue.broker_name}/{queue.queue_id} from offset {offset}")


async def _copy(namesrv: str, request: ReplayRequest, path: Path) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from rocketlake.client.config import ClientConfig
    from rocketlake.client.instance import ClientInstance
    from rocketlake.client.producer.producer import Producer
    from rocketlake.spark.replay.copy_topic import TopicCopy, failed_with
    from rocketlake.spark.replay.record import ReplayRecord, only_process

    with only_process(path):
        record = ReplayRecord.load(path)
        if record.is_done:
            typer.echo(f"0 messages replayed: done before ({record.copied:,} in all); record {path}")
            return
        await _make_topic(namesrv, request)
        client = ClientInstance(ClientConfig(namesrv=namesrv))
        await client.start()
        try:
            async with Producer("ROCKETLAKE_REPLAY_PRODUCER", instance=client) as producer:
                with Progress(console=Console(stderr=True)) as bar:
                    task = bar.add_task(f"{request.topic} -> {request.target}", total=None)

                    def show(progress: CopyProgress) -> None:
                        total = progress.left + progress.copied
                        bar.update(task, completed=progress.copied, total=max(total, 1))

                    done = await TopicCopy(request, record, client, producer, show).run()
        except BaseExceptionGroup as group:
            raise failed_with(group) or group from None
        finally:
            await client.stop()
    known = f", {record.copied - done.copied:,} before" if record.copied > done.copied or done.found else ""
    typer.echo(f"{done.copied:,} messages replayed into {request.target}{known}; record {path}")


async def _make_topic(namesrv: str, request: ReplayRequest) -> None:
    """The target with as many queues as the source, if nobody knows it."""
    from rocketlake.cli.cluster import Cluster, TopicPlan
    from rocketlake.client.errors import NoRoute

    async with Cluster(namesrv) as cluster:
        try:
            await cluster.route(request.target)
        except NoRoute:
            source = await cluster.route(request.topic)
            queues = max((each.read_queues for each in source.queues), default=4)
            await cluster.create_topic(TopicPlan(request.target, queues, 6))
