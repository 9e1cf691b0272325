"""The command tree.

Owns        the list of commands.
Must not know   what the commands do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rocketlake.cli import (
    acl,
    broker,
    cluster,
    context,
    dlq,
    follow,
    group,
    lake,
    message_look,
    pipeline,
    replay,
    replicas,
    schedule,
    serve,
    spark,
    store,
    topic,
    transaction,
)
from rocketlake.cli.bench import bench
from rocketlake.cli.command import CommandTree
from rocketlake.cli.consume import consume
from rocketlake.cli.context_files import apply_context
from rocketlake.cli.produce import produce
from rocketlake.cli.takeover import takeover
from rocketlake.cli.top import top

__all__ = ["app"]

app = CommandTree(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="RocketLake: RocketMQ in Python, with its data pipeline on Spark.",
    epilog="First steps: rocketlake up, then in another terminal: rocketlake produce orders hello",
)
_SERVERS, _CLUSTER, _MESSAGES, _SPARK = "Servers", "A cluster", "Messages", "Lake, pipelines, Spark"
servers = CommandTree(help="Start one server in the foreground, until Ctrl-C.")
servers.command("broker", serves=True)(serve.broker)
servers.command("brokers", serves=True)(serve.brokers)
servers.command("namesrv", serves=True)(serve.namesrv)
servers.command("proxy", serves=True)(serve.proxy)
app.command("up", serves=True, rich_help_panel=_SERVERS)(serve.up)
app.add_typer(servers, name="run", rich_help_panel=_SERVERS)
app.command("follow", serves=True, rich_help_panel=_SERVERS)(follow.follow)
app.command("takeover", rich_help_panel=_SERVERS)(takeover)
app.add_typer(store.app, name="store", rich_help_panel=_SERVERS)
app.add_typer(context.app, name="context", rich_help_panel=_CLUSTER)
app.add_typer(cluster.app, name="cluster", rich_help_panel=_CLUSTER)
app.command("top", rich_help_panel=_CLUSTER)(top)
app.add_typer(broker.app, name="broker", rich_help_panel=_CLUSTER)
app.add_typer(replicas.app, name="replicas", rich_help_panel=_CLUSTER)
app.add_typer(topic.app, name="topic", rich_help_panel=_CLUSTER)
app.add_typer(group.app, name="group", rich_help_panel=_CLUSTER)
app.add_typer(acl.app, name="acl", rich_help_panel=_CLUSTER)
app.command("bench", rich_help_panel=_CLUSTER)(bench)
app.command("produce", rich_help_panel=_MESSAGES)(produce)
app.command("consume", rich_help_panel=_MESSAGES)(consume)
app.add_typer(message_look.app, name="message", rich_help_panel=_MESSAGES)
app.add_typer(dlq.app, name="dlq", rich_help_panel=_MESSAGES)
app.add_typer(schedule.app, name="schedule", rich_help_panel=_MESSAGES)
app.add_typer(transaction.app, name="transaction", rich_help_panel=_MESSAGES)
app.command("replay", rich_help_panel=_MESSAGES)(replay.replay)
app.add_typer(lake.app, name="lake", rich_help_panel=_SPARK)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=_SPARK)
app.add_typer(spark.app, name="spark", rich_help_panel=_SPARK)


def _show_version(wanted: bool) -> None:
    if wanted:
        from rocketlake.cli.build import build_line

        typer.echo(build_line())
        raise typer.Exit


_WITHOUT_CONTEXT = {"up", "run", "follow", "context"}
"""A context is for those who ask a cluster: no server joins another cluster because its owner looked at that."""


@app.callback()
def _options(
    ctx: typer.Context,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            envvar="ROCKETLAKE_CONTEXT",
            help="Ask the cluster of this context: `rocketlake context list`.",
            show_default=False,
        ),
    ] = None,
    tls_config: Annotated[
        Path | None,
        typer.Option(
            "--tls-config",
            envvar="ROCKETLAKE_TLS_CONFIG",
            help="Encrypt connections to servers, by this file of certificates.",
            show_default=False,
        ),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(
            "--credentials",
            help="Sign requests to servers, by this file with accessKey and secretKey.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and the build."),
    ] = False,
) -> None:
    if ctx.invoked_subcommand not in _WITHOUT_CONTEXT:
        apply_context(context)
    if tls_config is not None:
        # Where every client looks, those in processes that a command starts, too.
        os.environ["ROCKETLAKE_TLS_CONFIG"] = str(tls_config.absolute())
    if credentials is not None:
        from rocketlake.auth.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, Credentials

        user = Credentials.from_file(credentials)
        os.environ |= {ACCESS_KEY_VARIABLE: user.access_key, SECRET_KEY_VARIABLE: user.secret_key}
