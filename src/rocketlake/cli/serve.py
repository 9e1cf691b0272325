"""`rocketlake up`, `rocketlake run broker`, `brokers`, `namesrv`: servers in the foreground, until Ctrl-C.

Owns        the options of the servers, their output when they are ready, the stop on a signal, settings of the whole
            process.
Must not know   what the servers do, what their log lines look like (logs.py).
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from rocketlake.cli.logs import LOG_FORM_DEFAULT, LogFile, LogFormat, LogLevel, Logs, LogSize, Severity
from rocketlake.cli.output import run

if TYPE_CHECKING:
    from rocketlake.broker.broker import Broker
    from rocketlake.cli.first_steps import FirstSteps
    from rocketlake.net.http.settings import MetricsChoice

__all__ = ["broker", "brokers", "namesrv", "proxy", "serve_until_told", "up"]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Java properties file, like those of RocketMQ.", show_default=False),
]


Host = Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.", show_default=False)]


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_COLLECT_AFTER = 20_000
"""The collector runs after so many new objects; Python's own number is 700. Requests leave no cycles behind."""


AtEof = Annotated[
    bool,
    typer.Option(
        "--stop-at-eof",
        hidden=True,
        help="Stop when standard input ends: the process that holds its other end is gone.",
    ),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=-1,
        max=65535,
        help="Port of the first broker's metrics, the others follow, the name server's lies before it; 0: any free"
        " ones, -1: no metrics. Default 5557, or any free one if that is taken.",
        show_default=False,
    ),
]


class _Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def up(
    folder: Annotated[
        Path, typer.Option("--dir", "-d", help="Folder for messages and tables only; made if missing.")
    ] = Path("rocketlake-data"),
    namesrv_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the name server, 0: any free one.")
    ] = 9876,
    broker_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the broker, 0: any free one.")] = 10911,
    replicas: Annotated[
        int,
        typer.Option(min=1, max=9, help="Brokers of the group, each a process; more than 1: with a controller."),
    ] = 1,
    metrics_port: MetricsPort = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of broker.conf, NAME=VALUE; may be repeated.", show_default=False),
    ] = None,
    log_level: LogLevel = Severity.WARNING,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
    log_max_mb: LogSize = 0,
) -> None:
    """Start a name server and a broker in one process, on this machine only; or a group of brokers (--replicas)."""
    if replicas > 1:
        ports = (namesrv_port, broker_port, metrics_port)
        _up_with_replicas(folder, replicas, ports, settings or (), Logs(log_level, log_format, log_file, log_max_mb))
        return
    began = time.perf_counter()
    from rocketlake.cli.build import build_line
    from rocketlake.cli.first_steps import FirstSteps
    from rocketlake.cli.given import check_ports, grpc_port, grpc_ports, make_folder, metrics_ports, settings_of
    from rocketlake.standalone import Standalone

    with Logs(log_level, log_format, log_file, log_max_mb) as logs:
        given = settings_of(settings or ())
        is_grpc_free = "grpcServerPort" not in given
        given.setdefault("grpcServerPort", str(grpc_port(broker_port)))
        (grpc,) = grpc_ports(given, 1)
        metrics = metrics_ports(metrics_port, broker_port, 1)
        standalone = Standalone(
            folder,
            namesrv_port=namesrv_port,
            broker_port=broker_port,
            metrics_ports=(metrics[1], metrics[0]) if metrics else None,
            settings=given,
        )
        check_ports(namesrv_port, [("--broker-port", broker_port)], standalone.settings)
        make_folder(folder, "--dir")
        server, grpc_address = _with_proxy(standalone, lambda: standalone.broker, grpc >= 0)

        def ready() -> None:
            steps = FirstSteps(standalone.namesrv_address, given, folder)
            typer.echo(f"RocketLake is up ({time.perf_counter() - began:.1f} s)")
            typer.echo(f"  build         {build_line()}")
            typer.echo(f"  name server   {standalone.namesrv_address}")
            typer.echo(f"  broker        {standalone.broker_address}  (cluster DefaultCluster, broker-a)")
            if address := grpc_address():
                typer.echo(f"  gRPC          {address}  (clients of RocketMQ 5)")
            elif is_grpc_free:
                typer.echo("  gRPC          not served: the clients of RocketMQ 5 need pip install 'rocketlake[proxy]'")
            if address := standalone.broker.monitor.address:
                typer.echo(f"  metrics       http://{address}/metrics  (health: /health)")
                typer.echo(f"                http://{standalone.name_server.monitor.address}/metrics  (name server)")
            typer.echo(f"  files         {folder.resolve()}")
            _say_steps(steps, "topic", "list")

        options = dict.fromkeys(metrics, "--metrics-port") | {namesrv_port: "--namesrv-port"}
        options[grpc] = "--set grpcServerPort"
        run(serve_until_told(server, ready, logs, lambda port: options.get(port, "--broker-port"), "host"))


def _with_proxy(server: _Server, broker: Callable[[], Broker], is_wanted: bool) -> tuple[_Server, Callable[[], str]]:
    """The server with a gRPC proxy beside its broker, and the call that tells the proxy's address, "" without one."""
    if not is_wanted:
        return server, str
    from rocketlake.proxy.beside import WithProxy

    both = WithProxy(server, broker)
    return both, lambda: both.address


def _up_with_replicas(
    folder: Path, replicas: int, ports: tuple[int, int, int | None], settings: Sequence[str], logs: Logs
) -> None:
    began = time.perf_counter()
    namesrv_port, broker_port, metrics_port = ports
    from rocketlake.cli.build import build_line
    from rocketlake.cli.first_steps import FirstSteps
    from rocketlake.cli.given import check_ports, make_folder, metrics_ports, settings_of
    from rocketlake.cli.kept_process import ports_of_brokers
    from rocketlake.cli.supervisor import Supervisor

    with logs:
        given = settings_of(settings)
        brokers = [(f"--broker-port + {port - broker_port}", port) for port in ports_of_brokers(broker_port, replicas)]
        check_ports(namesrv_port, [("--broker-port", broker_port), *brokers[1:]], given)
        make_folder(folder, "--dir")
        supervisor = Supervisor(
            folder,
            replicas,
            namesrv_port=namesrv_port,
            broker_port=broker_port,
            metrics_ports=metrics_ports(metrics_port, broker_port, replicas),
            settings=given,
            say=_say,
        )

        def ready() -> None:
            namesrv = supervisor.name_server
            steps = FirstSteps(namesrv.address, given, folder)
            typer.echo(f"RocketLake is up ({time.perf_counter() - began:.1f} s)")
            typer.echo(f"  build         {build_line()}")
            typer.echo(f"  name server   {namesrv.address}  (with the controller; process {namesrv.pid})")
            for broker in supervisor.brokers:
                typer.echo(f"  {broker.name}      {broker.address}  (group {supervisor.group}; process {broker.pid})")
            for broker in supervisor.brokers:
                if broker.grpc:
                    typer.echo(f"  gRPC          {broker.grpc}  ({broker.name})")
            for server in (namesrv, *supervisor.brokers):
                if server.metrics:
                    typer.echo(f"  metrics       http://{server.metrics}/metrics  ({server.name})")
            typer.echo(f"  files, logs   {folder.resolve()}")
            death = f"  kill -9 {supervisor.brokers[0].pid}     (if it is the master, another one becomes it)"
            _say_steps(steps, "replicas", "show", supervisor.group, more=(death,))

        run(serve_until_told(supervisor, ready, logs, lambda _: "--broker-port", "host"))


def _say_steps(steps: FirstSteps, *third: str, more: Sequence[str] = ()) -> None:
    """The end of the banner: who is served, and what to try next."""
    if users := steps.users():
        typer.echo(users)
    typer.echo("\nTry, in another terminal:")
    for line in (*steps.commands(*third), *more):
        typer.echo(line)
    typer.echo("\nCtrl-C stops it; the messages stay.")


def _say(text: str) -> None:
    """Tell the user of a process that ended; without a terminal that still listens, the others go on."""
    with suppress(OSError):
        typer.echo(text)


def namesrv(
    config: ConfigFile = None,
    host: Host = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Port; default 9876.", show_default=False)
    ] = None,
    log_level: LogLevel = Severity.INFO,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
    log_max_mb: LogSize = 0,
    stop_at_eof: AtEof = False,
) -> None:
    """Start a name server."""
    from rocketlake.auth.server_accounts import check_open
    from rocketlake.namesrv.config import load_namesrv_conf
    from rocketlake.namesrv.server import NameServer

    with Logs(log_level, log_format, log_file, log_max_mb) as logs:
        given = {"bindAddress": host, "listenPort": port}
        settings = load_namesrv_conf(config, {key: value for key, value in given.items() if value is not None})
        is_open = check_open(settings)
        server = NameServer(settings)

        def ready() -> None:
            if is_open:
                typer.echo(is_open)
            _say_metrics(server.monitor.address)
            typer.echo(f"name server is up at {server.address}; Ctrl-C stops it")

        run(
            serve_until_told(
                server, ready, logs, _port_option(settings.metrics, "--port"), "--host", at_eof=stop_at_eof
            )
        )


def broker(
    config: ConfigFile = None,
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv",
            "-n",
            help="Name servers, host:port;host:port; else namesrvAddr in the file, else the variable NAMESRV_ADDR.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder of messages and tables; storePathRootDir in the file.", show_default=False),
    ] = None,
    log_level: LogLevel = Severity.INFO,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
    log_max_mb: LogSize = 0,
    stop_at_eof: AtEof = False,
) -> None:
    """Start a broker, by the settings of a broker.conf."""
    from rocketlake.auth.server_accounts import check_open
    from rocketlake.broker.broker import Broker
    from rocketlake.cli.given import load_broker_settings, make_folder

    with Logs(log_level, log_format, log_file, log_max_mb) as logs:
        loaded = load_broker_settings(config, namesrv=namesrv, store=store)
        is_open = check_open(loaded.broker)
        make_folder(loaded.broker.store_root.expanduser(), "--store" if store else "storePathRootDir")
        serving = Broker(loaded.broker, loaded.store)
        server, grpc_address = _with_proxy(serving, lambda: serving, loaded.broker.grpc_port >= 0)

        def ready() -> None:
            named = f"broker {loaded.broker.broker_name} of {loaded.broker.cluster_name}"
            for line in filter(None, (loaded.registers_at, is_open)):
                typer.echo(line)
            _say_metrics(serving.monitor.address)
            if address := grpc_address():
                typer.echo(f"gRPC clients come to {address}")
            typer.echo(f"{named} is up at {serving.address}; Ctrl-C stops it")

        ports = _port_option(loaded.broker.metrics, "listenPort, fastListenPort or grpcServerPort in broker.conf")
        run(serve_until_told(server, ready, logs, ports, "bindAddress", at_eof=stop_at_eof))


def brokers(
    count: Annotated[int, typer.Option("--count", "-n", min=2, max=64, help="How many; one for each core, say.")],
    config: ConfigFile = None,
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv", help="Name servers, host:port;host:port; else namesrvAddr in the file.", show_default=False
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder of all of them; else storePathRootDir in the file.", show_default=False),
    ] = None,
    log_level: LogLevel = Severity.INFO,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
    log_max_mb: LogSize = 0,
) -> None:
    """Start several brokers on this machine, each a process with a store of its own, by one broker.conf."""
    began = time.perf_counter()
    from rocketlake.cli.broker_processes import BrokerProcesses
    from rocketlake.cli.given import make_folder

    with Logs(log_level, log_format, log_file, log_max_mb) as logs:
        server = BrokerProcesses(count, config, namesrv=namesrv, store=store, say=_say)
        make_folder(server.folder, "--store" if store else "storePathRootDir")

        def ready() -> None:
            typer.echo(f"{count} brokers are up ({time.perf_counter() - began:.1f} s)")
            for each in server.brokers:
                metrics = f"; metrics http://{each.metrics}/metrics" if each.metrics else ""
                grpc = f"; gRPC {each.grpc}" if each.grpc else ""
                typer.echo(f"  {each.name}      {each.address}  (process {each.pid}{metrics}{grpc})")
            typer.echo(f"  files, logs   {server.folder}")
            typer.echo("Ctrl-C stops them; the messages stay.")

        run(serve_until_told(server, ready, logs, lambda _: "listenPort in broker.conf", "bindAddress"))


def proxy(
    config: ConfigFile = None,
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv",
            "-n",
            envvar="NAMESRV_ADDR",
            help="Name servers of the cluster, host:port;host:port.",
            show_default=False,
        ),
    ] = None,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65535, help="Port for gRPC; default 8081.", show_default=False),
    ] = None,
    log_level: LogLevel = Severity.INFO,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
    log_max_mb: LogSize = 0,
    stop_at_eof: AtEof = False,
) -> None:
    """Start a gRPC proxy, for the clients of RocketMQ 5, in front of any RocketMQ cluster."""
    from rocketlake.auth.server_accounts import check_open
    from rocketlake.proxy.alone import ProxyAlone
    from rocketlake.proxy.config import load_proxy_conf

    with Logs(log_level, log_format, log_file, log_max_mb) as logs:
        given = {"namesrvAddr": namesrv, "bindAddress": host, "grpcServerPort": port}
        settings = load_proxy_conf(config, {key: value for key, value in given.items() if value is not None})
        is_open = check_open(settings)
        server = ProxyAlone(settings)

        def ready() -> None:
            if is_open:
                typer.echo(is_open)
            _say_metrics(server.monitor.address)
            names = ";".join(settings.namesrv_addresses)
            typer.echo(f"proxy is up at {server.address} for the cluster of {names}; Ctrl-C stops it")

        ports = _port_option(settings.metrics, "--port")
        run(serve_until_told(server, ready, logs, ports, "--host", at_eof=stop_at_eof))


def _say_metrics(address: str) -> None:
    if address:
        typer.echo(f"metrics are at http://{address}/metrics")


def _port_option(metrics: MetricsChoice, others: str) -> Callable[[int], str]:
    """Which setting gives a port that is taken."""
    return lambda port: "metricsPromExporterPort" if port == metrics.port else others


class _Wish:
    """Somebody wishes the server to stop: SIGINT, SIGTERM, or the end of standard input.

    During the start it ends the start. A second signal ends the process at once.
    """

    def __init__(self, at_eof: bool) -> None:
        self.came = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._take)
        if at_eof:
            self._loop.add_reader(0, self._read)

    def started(self) -> bool:
        """The start has ended; False if that was by a wish."""
        starting, self._starting = self._starting, None
        if self.came.is_set() and starting is not None:
            starting.uncancel()
        return not self.came.is_set()

    def close(self) -> None:
        """Signals have their usual effect again."""
        self._loop.remove_reader(0)
        for number in _SIGNALS:
            self._loop.remove_signal_handler(number)

    def _take(self) -> None:
        self.close()
        self.came.set()
        if self._starting is not None:
            self._starting.cancel()

    def _read(self) -> None:
        if not os.read(0, 4096):
            self._take()


async def serve_until_told(
    server: _Server,
    ready: Callable[[], None],
    logs: Logs,
    port_option: Callable[[int], str],
    host_option: str,
    *,
    at_eof: bool = False,
) -> None:
    """Start, say so, wait for the wish to stop, stop cleanly."""
    from rocketlake.cli.build import log_build
    from rocketlake.net.network import CannotListen

    if not faulthandler.is_enabled():
        faulthandler.enable(2)  # a read of a file that was cut meanwhile ends the process: not without a word
    wish = _Wish(at_eof)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, logs.reopen)
    gc.set_threshold(_COLLECT_AFTER)
    log_build()
    try:
        await server.start()
    except CannotListen as error:
        error.name_settings(port=port_option(error.port), host=host_option)
        raise
    except asyncio.CancelledError:
        if wish.started():
            raise
        typer.echo("stopped before it was up")
        return
    wish.started()
    gc.freeze()  # objects made by the start stay for good: the collector must not walk them again while requests wait
    try:
        ready()
        await wish.came.wait()
        typer.echo("stopping ...")
    finally:
        wish.close()
        await server.stop()
    typer.echo("stopped")
