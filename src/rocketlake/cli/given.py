"""The settings given to a server, and their sources: options, files, the environment.

Owns        the order of these sources, the check of a server's folder.
Must not know   single settings, but for the name servers of a broker.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketlake.base.errors import StoreError, UsageError

if TYPE_CHECKING:
    from rocketlake.broker.config import BrokerConfig
    from rocketlake.store.config import StoreConfig

__all__ = [
    "BrokerSettings",
    "check_ports",
    "grpc_port",
    "grpc_ports",
    "load_broker_settings",
    "make_folder",
    "metrics_ports",
    "settings_of",
]

GRPC_PORT = 8081
"""Of Apache's proxy."""
_FIXED = {
    "bindAddress": "`rocketlake run broker` listens on other addresses than 127.0.0.1",
    "listenPort": "use --broker-port",
    "fastListenPort": "`rocketlake run broker` has a second port",
    "namesrvAddr": "`rocketlake run broker` registers with other name servers",
    "storePathRootDir": "use --dir",
    "metricsPromExporterPort": "use --metrics-port",
}
"""Settings that `rocketlake up` decides itself, and the option to use instead."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of a broker and its store; `registers_at` says which name servers it has, and from which source."""

    broker: BrokerConfig
    store: StoreConfig
    registers_at: str


def load_broker_settings(config: Path | None, *, namesrv: str | None, store: Path | None) -> BrokerSettings:
    """Name servers: the option, else the file, else NAMESRV_ADDR; a variable of other tools never beats a file."""
    from rocketlake.broker.config import load_broker_conf

    given: dict[str, Any] = {"namesrvAddr": namesrv, "storePathRootDir": store}
    given = {key: value for key, value in given.items() if value is not None}
    variable = os.environ.get("NAMESRV_ADDR", "")
    broker, files = load_broker_conf(config, given)
    source = "--namesrv" if namesrv else f"namesrvAddr in {config}"
    if not broker.namesrv_addresses and variable:
        broker, files = load_broker_conf(config, given | {"namesrvAddr": variable})
        source, variable = "NAMESRV_ADDR in the environment", ""
    addresses = ";".join(broker.namesrv_addresses)
    if not addresses:
        text = "registers with no name server, so clients cannot find it: give -n host:port, or namesrvAddr in the file"
    else:
        text = f"registers with name server {addresses} (from {source})"
    if addresses and variable and variable != addresses:
        text += f"; NAMESRV_ADDR={variable} is not used"
    return BrokerSettings(broker, files, text)


def make_folder(folder: Path, named: str) -> None:
    """The folder, ready to be written to. StoreError that names the option otherwise."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cure = f"give a folder with {named} that is there, or can be made, and that you may write to"
        raise StoreError(f"the folder cannot be made: {error.strerror}", path=str(folder), hint=cure) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        cure = f"give a folder with {named} that you may write to, or change its owner"
        raise StoreError("the folder cannot be written to", path=str(folder), hint=cure)


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE, each a setting of broker.conf. UsageError for another text and for settings that `up` decides."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--set {text!r} is not NAME=VALUE", hint="write --set enablePropertyFilter=true")
        if name in _FIXED:
            raise UsageError(f"--set {name} cannot be given: `rocketlake up` decides it", hint=_FIXED[name])
        settings[name] = value
    return settings


def metrics_ports(given: int | None, broker_port: int, brokers: int) -> list[int]:
    """Where the name server and then each broker of `rocketlake up` serves its metrics; none: nowhere.

    `given` is the port of the first broker, -1 stands for nowhere. Without it a port that is taken costs nothing but
    itself: any free one is used instead, and so they all are where the brokers take free ports, too.
    """
    from rocketlake.net.http.settings import METRICS_PORT

    if given is not None:
        return [] if given < 0 else [given and given + number for number in range(-1, brokers)]
    return [port if broker_port and _is_free(port) else 0 for port in range(METRICS_PORT - 1, METRICS_PORT + brokers)]


def grpc_port(broker_port: int) -> int:
    """Where `rocketlake up` serves gRPC: Apache's port, any free one if that is taken; -1: its packages are missing."""
    try:
        import google.protobuf  # noqa: F401
        import ngh2  # noqa: F401
    except ImportError:
        return -1
    return GRPC_PORT if broker_port and _is_free(GRPC_PORT) else 0


def grpc_ports(settings: Mapping[str, str], brokers: int) -> list[int]:
    """Where each of so many brokers serves gRPC: grpcServerPort and the ports behind it; 0: any free ones, -1: nowhere.

    UsageError if the setting is no port.
    """
    text = settings.get("grpcServerPort", "-1")
    try:
        first = int(text)
    except ValueError:
        first = -2
    if not -1 <= first <= 65536 - brokers:
        what = f"setting grpcServerPort = {text!r} is no port, or leaves none for {brokers} brokers"
        raise UsageError(what, hint="give a port such as 8081; 0 takes any free ones, -1 serves no gRPC")
    return [first + number if first > 0 else first for number in range(brokers)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def check_ports(namesrv_port: int, brokers: Iterable[tuple[str, int]], settings: Mapping[str, str]) -> None:
    """UsageError if two servers of one command want one port. `brokers`: each with the option that gives its port."""
    ha_port = settings.get("haListenPort", "0")
    wanted = [("--namesrv-port", namesrv_port)]
    brokers = list(brokers)
    for (option, port), grpc in zip(brokers, grpc_ports(settings, len(brokers)), strict=True):
        wanted += [(option, port), (f"gRPC next to {option} (grpcServerPort)", max(grpc, 0))]
        if ha_port == "0":
            wanted.append((f"the port for slaves next to {option} (haListenPort)", port and port + 1))
        elif ha_port.isdigit():
            wanted.append(("--set haListenPort", int(ha_port)))
    taken: dict[int, str] = {}
    for name, port in wanted:
        if port in taken:
            raise UsageError(
                f"port {port} is wanted twice: {taken[port]} and {name}",
                hint="give another --namesrv-port or --broker-port; 0 takes any free one",
            )
        if port:
            taken[port] = name
