"""Owns Apache's clients for gRPC in Node, Go and Rust, and h2spec: each is built once into .cache, and is a process.

A program takes the words of interop/grpc_python.py and prints its lines. What it needs is locked beside it. A client
that cannot be had on this machine raises PeerMissing with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.apache import PeerMissing, alone

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
BUILD_SECONDS = 800.0
"""Rust takes two minutes on a quiet machine. A test with a peer ends after 900 s."""


@dataclass(frozen=True)
class GrpcProgram:
    """A client's program: how to start it."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self, what: str, endpoint: str, *words: str, user: str = "", trusted: Path | None = None
    ) -> list[dict[str, Any]]:
        """Its lines. `user`: name:secret. `trusted`: speak TLS with servers of this authority. Raises RuntimeError."""
        environment = {**os.environ, **self.environment, "rocketmq.client.enableSsl": str(trusted is not None).lower()}
        if trusted is not None:
            # Of grpc-js, and of OpenSSL, which Rust's rustls-native-certs reads; Go's client checks no certificate.
            environment |= {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(trusted), "SSL_CERT_FILE": str(trusted)}
        command = [*self.command, what, endpoint, user, "tls" if trusted else "plain", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[-6:])} failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def node() -> GrpcProgram:
    """rocketmq-client-nodejs."""
    folder = HERE / "grpc_node"
    modules = CACHE / "grpc_node" / "node_modules"
    with alone("grpc_node"):
        if _is_older(modules / ".package-lock.json", folder / "package-lock.json"):
            modules.parent.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(folder / name, modules.parent)
            _build("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", at=modules.parent)
    return GrpcProgram(("node", str(folder / "grpc.js")), {"NODE_PATH": str(modules)})


def go() -> GrpcProgram:
    """github.com/apache/rocketmq-clients/golang."""
    folder, program = HERE / "grpc_go", CACHE / "grpc_go"
    with alone("grpc_go"):
        if any(_is_older(program, folder / name) for name in ("main.go", "go.sum")):
            _build("go", "build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-o", str(program), ".", at=folder)
    return GrpcProgram((str(program),), {"rocketmq.client.logRoot": str(CACHE / "grpc_go_logs")})


def h2spec() -> str:
    """The path of h2spec, which tries the rules of HTTP/2 on a server."""
    folder, program = HERE / "grpc_h2spec", CACHE / "grpc_h2spec"
    with alone("grpc_h2spec"):
        if _is_older(program, folder / "go.sum"):
            flags = ["-trimpath", "-mod=readonly", "-buildvcs=false"]
            _build("go", "build", *flags, "-o", str(program), "github.com/summerwind/h2spec/cmd/h2spec", at=folder)
    return str(program)


def rust() -> GrpcProgram:
    """The crate rocketmq."""
    folder, target = HERE / "grpc_rust", CACHE / "grpc_rust"
    program = target / "debug" / "grpc"
    with alone("grpc_rust"):
        if any(_is_older(program, folder / name) for name in ("src/main.rs", "Cargo.lock")):
            _build("cargo", "build", "--locked", "--quiet", "--target-dir", str(target), at=folder)
            program.touch()
    return GrpcProgram((str(program),))


def _is_older(built: Path, source: Path) -> bool:
    return not built.exists() or built.stat().st_mtime < source.stat().st_mtime


def _build(*command: str, at: Path) -> None:
    if not shutil.which(command[0]):
        raise PeerMissing(f"the peer {at.name}: `{command[0]}` is not installed")
    try:
        done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"the peer {at.name} was not built in {BUILD_SECONDS:.0f} s") from None
    if done.returncode:
        raise PeerMissing(f"the peer {at.name} cannot be built: {(done.stderr or done.stdout)[-600:]}")
