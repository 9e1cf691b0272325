"""`rocketlake context add | use | list | show | remove`: named clusters, so that no command needs addresses and users.

Owns        options and output of these commands.
Must not know   where contexts are kept (context_files.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rocketlake.cli import context_files
from rocketlake.cli.command import CommandTree
from rocketlake.cli.output import DryRun, Yes, agreed
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, show, tell

__all__ = ["app"]

app = CommandTree(help="Named clusters: addresses, user and certificates, so that commands need no options for them.")

Name = Annotated[
    str, typer.Argument(help="Name of the context.", show_default=False, autocompletion=context_files.names)
]


@app.command()
def add(
    name: Name,
    namesrv: Annotated[
        str, typer.Option("--namesrv", "-n", help="Name servers, host:port;host:port.", show_default=False)
    ],
    user: Annotated[str, typer.Option(help="The user: its access key.", show_default=False)] = "",
    secret: Annotated[
        str,
        typer.Option(
            help="Where the secret key is: env:NAME or file:PATH. Without it you are asked, and it is kept here.",
            show_default=False,
        ),
    ] = "",
    tls_config: Annotated[
        Path | None, typer.Option("--tls-config", help="File of certificates, as of --tls-config.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="In place of one with this name.")] = False,
) -> None:
    """Make a context. The first one is in use at once; nothing is asked of the cluster."""
    from rocketlake.base.errors import ConflictError, UsageError
    from rocketlake.client.config import ClientConfig

    ClientConfig(namesrv=namesrv)  # refuses addresses that are none
    if secret and not (user and secret.startswith(("env:", "file:"))):
        hint = "write --user NAME --secret env:NAME or file:PATH; without --secret you are asked for it"
        raise UsageError("--secret says where the secret of --user is, not the secret itself", hint=hint)
    if name in context_files.names() and not force:
        raise ConflictError(f"there is a context {name} already", hint="--force puts this one in its place")
    if user and not secret:
        secret = typer.prompt(f"secret key of {user}", hide_input=True, err=True)
    file = str(tls_config.absolute()) if tls_config else ""
    path = context_files.save(name, context_files.Context(namesrv, user, secret, file))
    tell(f"context {name} is in {path}", context=name, file=str(path))
    if not context_files.current():
        _use(name)


@app.command("use")
def use(name: Name) -> None:
    """Have every command use this context, until another one is chosen or named with --context."""
    _use(name)


def _use(name: str) -> None:
    context_files.use(name)
    tell(f"context {name} is in use", context=name)
    if os.environ.get("NAMESRV_ADDR"):
        typer.secho("note: NAMESRV_ADDR is set and goes before it", fg="yellow", err=True)


@app.command("list")
def list_contexts(output: Output = OUTPUT_DEFAULT) -> None:
    """List contexts, and which one is in use."""
    now = context_files.current()
    rows = [
        ("*" if name == now else None, name, each.namesrv, each.user or None, each.tls_config or None)
        for name in context_files.names()
        for each in (context_files.load(name),)
    ]
    show(("in use", "context", "namesrv", "user", "tls config"), rows, output, none="no contexts yet")


@app.command("show")
def show_context(
    name: Annotated[str, typer.Argument(help="Name of the context; else the one in use.")] = "",
) -> None:
    """Show a context: never its secret, but where that is."""
    from rocketlake.base.errors import NotThereError

    chosen = name or context_files.current()
    if not chosen:
        raise NotThereError("no context is in use", hint="`rocketlake context use NAME` chooses one")
    found = context_files.load(chosen)
    known = {"context": chosen, "namesrv": found.namesrv, "user": found.user or None}
    known |= {"secret": found.secret_named or None, "tls_config": found.tls_config or None}
    for key, value in known.items():
        tell(f"{key.replace('_', ' '):<12}{value or '-'}", **{key: value})


@app.command()
def remove(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Forget a context, with the secret in it."""
    context_files.load(name)
    if agreed(f"forget context {name}", yes=yes, dry_run=dry_run, context=name):
        context_files.remove(name)
        tell(f"context {name} is forgotten", context=name)
