"""`rocketlake up`, `rocketlake namesrv`, `rocketlake broker`: servers in the foreground, until Ctrl-C.

Owns        the options of the servers, what they print when they are ready, stopping on a signal, what holds for the
            whole process.
Must not know   what the servers do.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import typer

from rocketlake.cli.output import run

__all__ = ["broker", "namesrv", "up"]

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Java properties file, as RocketMQ's own.", show_default=False)
]


_COLLECT_AFTER = 20_000
"""Objects made and not freed yet; Python's own number is 700. Requests leave no cycles behind."""


class _Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def up(
    folder: Annotated[
        Path, typer.Option("--dir", "-d", help="Folder of its own for messages and tables; made if missing.")
    ] = Path("rocketlake-data"),
    namesrv_port: Annotated[int, typer.Option(help="Port of the name server, 0: any free one.")] = 9876,
    broker_port: Annotated[int, typer.Option(help="Port of the broker, 0: any free one.")] = 10911,
) -> None:
    """Start a name server and a broker in one process, on this machine only."""
    began = time.perf_counter()
    from rocketlake.standalone import Standalone

    standalone = Standalone(folder, namesrv_port=namesrv_port, broker_port=broker_port)

    def ready() -> None:
        at = "" if standalone.namesrv_address == "127.0.0.1:9876" else f" -n {standalone.namesrv_address}"
        typer.echo(f"RocketLake is up ({time.perf_counter() - began:.1f} s)")
        typer.echo(f"  name server   {standalone.namesrv_address}")
        typer.echo(f"  broker        {standalone.broker_address}  (cluster DefaultCluster, broker-a)")
        typer.echo(f"  files         {folder.resolve()}")
        typer.echo("\nTry, in another terminal:")
        typer.echo(f"  rocketlake tail orders{at}")
        typer.echo(f'  rocketlake send orders "hello"{at}')
        typer.echo(f"  rocketlake topic list{at}")
        typer.echo("\nCtrl-C stops it; the messages stay.")

    run(_serve(standalone, ready))


def namesrv(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port.", show_default="9876")] = None,
) -> None:
    """Start a name server."""
    from rocketlake.namesrv.config import load_namesrv_conf
    from rocketlake.namesrv.server import NameServer

    given = {"bindAddress": host, "listenPort": port}
    server = NameServer(load_namesrv_conf(config, {key: value for key, value in given.items() if value is not None}))
    run(_serve(server, lambda: typer.echo(f"name server is up at {server.address}; Ctrl-C stops it")))


def broker(
    config: ConfigFile = None,
    namesrv: Annotated[
        str | None, typer.Option("--namesrv", "-n", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of messages and tables.", show_default="storePathRootDir")
    ] = None,
) -> None:
    """Start a broker, by the settings of a broker.conf."""
    from rocketlake.broker.broker import Broker
    from rocketlake.broker.config import load_broker_conf

    given = {"namesrvAddr": namesrv, "storePathRootDir": store}
    settings, store_settings = load_broker_conf(
        config, {key: value for key, value in given.items() if value is not None}
    )
    server = Broker(settings, store_settings)
    named = f"broker {settings.broker_name} of {settings.cluster_name}"
    run(_serve(server, lambda: typer.echo(f"{named} is up at {server.address}; Ctrl-C stops it")))


async def _serve(server: _Server, ready: Callable[[], None]) -> None:
    """Start, say so, wait for SIGINT or SIGTERM, stop cleanly; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    gc.set_threshold(_COLLECT_AFTER)
    await server.start()
    gc.freeze()  # what is there now stays for good: the collector need not walk it again, all requests waiting
    try:
        ready()
        await stopped.wait()
        typer.echo("stopping ...")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        await server.stop()
    typer.echo("stopped")
