"""`rocketlake follow`: a broker that copies a running Apache master, so that it can take its place.

Owns        the options, the broker.conf that the first run writes, the words before the broker starts.
Must not know   how a master is asked (migration/peer.py), what a slave copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.logs import LOG_FORM_DEFAULT, LogFile, LogFormat, LogLevel, Logs, Severity
from rocketlake.cli.output import run
from rocketlake.cli.serve import serve_until_told

if TYPE_CHECKING:
    from rocketlake.admin.migration.left_behind import LeftBehind
    from rocketlake.broker.config import BrokerConfig

__all__ = ["follow"]

_CONF, _STORE = "broker.conf", "store"


def follow(
    master: Annotated[str, typer.Argument(help="host:port of the master to follow.", show_default=False)],
    folder: Annotated[Path, typer.Option("--dir", "-d", help="Folder of this broker; made if missing.")] = Path(
        "rocketlake-follow"
    ),
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv", "-n", help="Name servers, host:port;host:port; else the master's.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; clients must reach it after the takeover.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Port to listen on.")] = 10911,
    log_level: LogLevel = Severity.WARNING,
    log_format: LogFormat = LOG_FORM_DEFAULT,
    log_file: LogFile = None,
) -> None:
    """Start a broker that copies a running master, and say how far it is.

    The first run asks the master for its settings and writes broker.conf into --dir; a later one goes on with that.
    """
    from rocketlake.auth.admin_access import is_loopback
    from rocketlake.broker.broker import Broker
    from rocketlake.cli.following import Following
    from rocketlake.cli.given import load_broker_settings, make_folder

    with Logs(log_level, log_format, log_file) as logs:
        make_folder(folder, "--dir")
        conf = folder / _CONF
        is_new = not conf.exists()
        if is_new:
            _check_not_led(conf, folder / _STORE)
            own = {"bindAddress": host, "listenPort": str(port)}
            if not is_loopback(host):
                own["allowUnauthenticated"] = "true"  # as the cluster that it joins
            _write_conf(conf, master, namesrv, own)
        loaded = load_broker_settings(conf, namesrv=namesrv, store=None)
        if not is_new:
            _check_conf(conf, loaded.broker, run(_name_of(master)))
            _check_not_led(conf, loaded.broker.store_folder, loaded.broker.broker_id)
        server = Following(Broker(loaded.broker, loaded.store), master, typer.echo)
        named = f"{loaded.broker.broker_name} of {loaded.broker.cluster_name}"

        def ready() -> None:
            typer.echo(f"broker {loaded.broker.broker_id} of {named} is up at {server.broker.address}; Ctrl-C stops it")
            typer.echo(f"  settings      {conf}")
            typer.echo(f"  registers     {loaded.registers_at}")

        run(serve_until_told(server, ready, logs, lambda _: "--port", "--host"))


def _write_conf(conf: Path, master: str, namesrv: str | None, own: Mapping[str, str]) -> None:
    """Ask the master, tell what does not come along, and write the settings."""
    from rocketlake.base.settings.config_file import to_properties

    settings, lost = run(_ask(master, namesrv))
    for line in words(lost):
        typer.secho(f"note: {line}", fg="yellow", err=True)
    folder = conf.parent.resolve()
    settings = {**settings, **own, "storePathRootDir": str(folder / _STORE)}
    head = f"# Written by `rocketlake follow {master}`: change it as you like; `rocketlake run broker -c` takes it.\n"
    _write_whole(conf, head + to_properties(settings))


def _write_whole(conf: Path, text: str) -> None:
    """All of the text or no file: half of these settings would make another broker."""
    from rocketlake.base.disk.posix import PosixFiles
    from rocketlake.base.errors import StoreError

    files, fresh = PosixFiles(), conf.with_name(f"{conf.name}.tmp")
    try:
        files.write_bytes(fresh, text.encode())
        files.rename(fresh, conf)
        files.sync_dir(conf.parent)
    except OSError as error:
        cure = "make room there, or give another folder with --dir"
        raise StoreError(f"the settings cannot be written: {error.strerror}", path=str(conf), hint=cure) from None


def _check_conf(conf: Path, config: BrokerConfig, asked: tuple[str, str] | None) -> None:
    """UsageError unless these settings of an earlier run are those of a slave of this master.

    `asked`: brokerName and brokerClusterName of the master, None while it does not tell.
    """
    from rocketlake.base.errors import UsageError
    from rocketlake.broker.config import BrokerRole

    if config.broker_role is not BrokerRole.SLAVE:
        raise UsageError(
            "these are no settings of a slave: this broker would be a master",
            where=str(conf),
            hint="start a master with `rocketlake run broker -c`; remove the file, and the master is asked anew",
        )
    if asked is not None and asked != (config.broker_name, config.cluster_name):
        raise UsageError(
            f"this folder follows {config.broker_name} of {config.cluster_name}, the master is {' of '.join(asked)}",
            where=str(conf),
            hint="give another folder with --dir for another master",
        )


def _check_not_led(conf: Path, store: Path, broker_id: int | None = None) -> None:
    """UsageError if the broker of this store has become the master: started, it would take messages, beside another
    master perhaps. As a slave it would copy a log onto its own, which may have what the other one lacks.

    `broker_id`: that of its settings; with another one than before the operator has decided. None: there are none.
    """
    from rocketlake.base.disk.posix import PosixFiles
    from rocketlake.base.errors import UsageError
    from rocketlake.broker.cluster.role import MASTER_ID
    from rocketlake.broker.replicas.taken_role import TakenRole

    path = store / "config" / "takenRole.json"
    taken = TakenRole(path, PosixFiles(), MASTER_ID if broker_id is None else broker_id)
    if taken.led() if broker_id is None else taken.load() == MASTER_ID:
        raise UsageError(
            "this broker has taken over: it is the master now, and `follow` starts slaves only",
            where=str(path),
            hint=f"if it still is the master: `rocketlake run broker -c {conf}`"
            + (" with the settings of before" if broker_id is None else "")
            + "; if another one is: --dir with an empty folder",
        )


async def _name_of(address: str) -> tuple[str, str] | None:
    """brokerName and brokerClusterName of the broker there; None if it does not tell."""
    from rocketlake.admin.migration.peer import Peer
    from rocketlake.base.errors import LinkError, ProtocolError, RemoteError
    from rocketlake.client.calls.reach import net_client

    net = net_client()
    try:
        settings = await Peer(net, address).look()
        return settings.get("brokerName", ""), settings.get("brokerClusterName", "")
    except (LinkError, ProtocolError, RemoteError):
        return None
    finally:
        await net.close()


async def _ask(address: str, namesrv: str | None) -> tuple[dict[str, str], Sequence[LeftBehind]]:
    """Settings for a slave of this master, and what it would leave behind."""
    from rocketlake.admin.cluster import Cluster
    from rocketlake.admin.migration.left_behind import left_behind
    from rocketlake.admin.migration.peer import Peer
    from rocketlake.admin.migration.slave_conf import check_master, free_id, slave_settings
    from rocketlake.base.errors import UsageError
    from rocketlake.client.calls.reach import net_client

    net = net_client()
    try:
        master = Peer(net, address)
        await master.look()
        check_master(master)
        name_servers = namesrv or master.settings.get("namesrvAddr", "")
        if not name_servers:
            raise UsageError(f"{address} does not say which name servers it has", hint="give them: -n host:port")
        async with Cluster(name_servers) as cluster:
            taken = await cluster.members(master.broker_name)
        if taken.get(0) is None:
            raise UsageError(
                f"the name servers know no master of {master.broker_name}",
                where=name_servers,
                hint="give the name servers of the master: -n host:port",
            )
        settings = slave_settings(master, await master.figures(), free_id(taken))
        return settings | {"namesrvAddr": name_servers}, await left_behind(master)
    finally:
        await net.close()


def words(lost: Sequence[LeftBehind]) -> list[str]:
    """A line for each thing that does not come along."""
    return [f"not copied: {each.what}; {each.effect}" for each in lost]
