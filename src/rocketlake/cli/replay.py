"""`rocketlake replay`: a time range of a topic once more.

Owns        options and output of this command.
Must not know   how a replay tells which messages it has copied (rocketlake.spark.replay).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import amount, tell

if TYPE_CHECKING:
    from rocketlake.spark.replay.copy_topic import CopyProgress
    from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["replay"]

_TIME = "2026-11-21T10:00:00+01:00 (UTC without a zone) or ms since 1970."


def replay(
    topic: Annotated[str, typer.Argument(help="Topic to read.", show_default=False)],
    to_topic: Annotated[
        str, typer.Option("--to-topic", help="Copy into this topic; made if it does not exist.", show_default=False)
    ],
    from_time: Annotated[str, typer.Option("--from", help=f"Stored at or after: {_TIME}", show_default=False)] = "",
    until_time: Annotated[
        str, typer.Option("--until", help="Stored before; default: now, at the first run.", show_default=False)
    ] = "",
    tags: Annotated[
        str, typer.Option("--tag", "--tags", "-t", help="Only these tags, 'TagA || TagB'.", show_default=False)
    ] = "",
    sql92: Annotated[
        str, typer.Option("--sql92", help="Only messages whose properties pass this expression.", show_default=False)
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="Folder for records of replays; default ~/.local/state/rocketlake.", show_default=False
        ),
    ] = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Copy messages into another topic, each once however often the command runs. For a group: `group reset`."""
    from rocketlake.spark.replay.record import default_folder
    from rocketlake.spark.replay.request import ReplayRequest

    from_ms, until_ms = _time("--from", from_time), _time("--until", until_time)
    request = ReplayRequest(topic, to_topic, from_ms, until_ms, tags, sql92)
    request.check()
    run(_copy(namesrv, request, (state or default_folder()) / f"{request.identity}.json"))


def _time(option: str, text: str) -> int:
    """Epoch ms, -1 for an empty text. UsageError for "1h": each run would be another replay, and copy again."""
    from rocketlake.base.clock import SystemClock
    from rocketlake.base.errors import UsageError
    from rocketlake.model.moment import is_ago, moment_text, parse_time

    if not is_ago(text):
        return parse_time(option, text) if text else -1
    then = moment_text(parse_time(option, text, now_ms=SystemClock().now_ms()), "T")
    raise UsageError(
        f"{option} {text} is another time at each run, and a replay is known by its times",
        hint=f"write {option} {then}, which is {text.strip(' -')} ago",
    )


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
        was_done = record.is_done
        if not record.queues:
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
    if was_done and not done.copied + done.found:
        tell(f"0 messages replayed: done before ({amount(record.copied)} in all); record {path}")
        return
    known = f", {amount(record.copied - done.copied)} before" if record.copied > done.copied or done.found else ""
    brokers = ", ".join(sorted({queue.broker_name for queue in record.queues}))
    read = f"from {amount(len(record.queues), 'queue')} of {brokers}"
    tell(f"{amount(done.copied, 'message')} replayed into {request.target}{known}, {read}; record {path}")
    if done.damaged:
        tell(f"{amount(done.damaged, 'damaged message')} among them: bodies as they are stored, property DAMAGE")
    if done.lost:
        tell(f"{amount(done.lost, 'message')} cannot be copied; each is in the log above")


async def _make_topic(namesrv: str, request: ReplayRequest) -> None:
    """Make the target, with as many queues as the source, if it is not there. RocketLakeError without a source."""
    from rocketlake.admin.cluster import Cluster, TopicPlan

    async with Cluster(namesrv) as cluster:
        source = await cluster.route(request.topic)
        if await cluster.find_route(request.target) is None:
            queues = max((each.read_queues for each in source.queues), default=4)
            await cluster.create_topic(TopicPlan(request.target, queues, 6))
