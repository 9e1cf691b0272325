"""`rocketlake acl ...`: the users of a cluster, and what they may do.

Owns        options and output of these commands.
Must not know   which servers are asked, how an entry decides (rocketlake.admin, rocketlake.auth).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rocketlake.cli.command import CommandTree
from rocketlake.cli.exit_codes import ExitCode
from rocketlake.cli.output import NAMESRV_DEFAULT, DryRun, Namesrv, Yes, agreed, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, amount, show, tell

if TYPE_CHECKING:
    from rocketlake.admin import Admin, PolicyMade

__all__ = ["app"]

app = CommandTree(help="Users, and what they may do.")

T = TypeVar("T")
User = Annotated[str, typer.Argument(help="Name of the user; its clients have it as access key.", show_default=False)]
Actions = Annotated[
    str,
    typer.Argument(help="Pub, Sub, Create, Update, Delete, Get, List, All; several: Pub,Sub.", show_default=False),
]
ResourceText = Annotated[
    str, typer.Argument(help="Topic:NAME, Group:PREFIX*, Cluster:*, or * for all.", show_default=False)
]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="File whose first line is the secret key.", show_default=False),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--from", help="Only from this address or network; may be repeated.", show_default=False),
]
Rate = Annotated[
    int | None,
    typer.Option(min=0, help="Most a second at each broker: a quota. 0: no quota.", show_default=False),
]


@app.command()
def users(output: Output = OUTPUT_DEFAULT, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """List the users. Secrets are never shown."""
    from rocketlake.auth.account_text import user_of

    found = _with(namesrv, lambda admin: admin.users())
    rows = [(info.username, info.user_type, info.user_status, str(user_of(info, "").quota) or None) for info in found]
    show(("user", "type", "status", "quota"), rows, output, none="there are no users")


@app.command()
def add(
    user: User,
    password_file: PasswordFile = None,
    is_super: Annotated[bool, typer.Option("--super", help="The user may do everything.")] = False,
    quota_bytes_in: Rate = None,
    quota_requests_in: Rate = None,
    quota_bytes_out: Rate = None,
    quota_requests_out: Rate = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Make a user. Without --password-file a secret is made and printed once."""
    from rocketlake.auth.account_text import QuotaInfo

    password = None if password_file is None else _first_line(password_file)
    quota = QuotaInfo(quota_bytes_in, quota_requests_in, quota_bytes_out, quota_requests_out)
    made = _with(namesrv, lambda admin: admin.create_user(user, password=password, is_super=is_super, quota=quota))
    tell(f"user {user} is known to {amount(len(made.servers), 'server')}", user=user, servers=made.servers)
    if password is None:
        tell(f"accessKey: {user}\nsecretKey: {made.password}", access_key=user, secret_key=made.password)


@app.command()
def change(
    user: User,
    password_file: PasswordFile = None,
    disable: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Refuse its requests, or take them.", show_default=False)
    ] = None,
    is_super: Annotated[
        bool | None,
        typer.Option("--super/--normal", help="May do all, or what policies say.", show_default=False),
    ] = None,
    quota_bytes_in: Rate = None,
    quota_requests_in: Rate = None,
    quota_bytes_out: Rate = None,
    quota_requests_out: Rate = None,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Change a user: its secret, its status, its type, its quotas (in: sends, out: pulls)."""
    from rocketlake.auth.account_text import QuotaInfo

    password = None if password_file is None else _first_line(password_file)
    enabled = None if disable is None else not disable
    quota = QuotaInfo(quota_bytes_in, quota_requests_in, quota_bytes_out, quota_requests_out)
    servers = _with(
        namesrv,
        lambda admin: admin.alter_user(user, password=password, enabled=enabled, is_super=is_super, quota=quota),
    )
    tell(f"user {user} is changed on {amount(len(servers), 'server')}", user=user, servers=servers)


@app.command()
def remove(user: User, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Delete a user with its policies."""
    more = "Its clients are refused from then on."
    if not agreed(f"delete user {user}", yes=yes, dry_run=dry_run, more=more, user=user):
        return
    servers = _with(namesrv, lambda admin: admin.delete_user(user))
    tell(f"user {user} is deleted on {amount(len(servers), 'server')}", user=user, servers=servers)


@app.command("show")
def show_policies(
    user: Annotated[str, typer.Argument(help="Only of this user.", show_default=False)] = "",
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List policies."""
    found = _with(namesrv, lambda admin: admin.policies(user))
    rows = [
        (
            name,
            entry.decision.value,
            ",".join(sorted(action.value for action in entry.actions)),
            str(entry.resource),
            ",".join(entry.sources) or None,
            kind.value,
        )
        for name, acl in sorted(found.items())
        for kind, entry in acl.entries
    ]
    show(("user", "decision", "actions", "resource", "from", "policy"), rows, output, none="there are no policies")


@app.command()
def allow(
    user: User, actions: Actions, resource: ResourceText, source: Sources = None, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Allow a user something; in place of what was decided for the same resource."""
    _decide("Allow", user, actions, resource, source, namesrv)


@app.command()
def deny(
    user: User, actions: Actions, resource: ResourceText, source: Sources = None, namesrv: Namesrv = NAMESRV_DEFAULT
) -> None:
    """Deny a user something; in place of what was decided for the same resource."""
    _decide("Deny", user, actions, resource, source, namesrv)


@app.command()
def forget(
    user: User,
    resource: Annotated[
        str | None, typer.Argument(help="Resource as `acl show` prints it; none: all.", show_default=False)
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Delete what was decided for a resource, or all policies of a user."""
    what = f"the policy of {user} for {resource}" if resource else f"all policies of {user}"
    if not agreed(f"delete {what}", yes=yes, dry_run=dry_run, user=user):
        return
    servers = _with(namesrv, lambda admin: admin.delete_policies(user, resource))
    tell(f"deleted {what} on {amount(len(servers), 'server')}", user=user, servers=servers)


@app.command("import")
def import_plain_acl(
    file: Annotated[Path, typer.Argument(help="plain_acl.yml of ACL 1.0.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be made, ask no server.")] = False,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Make the users and policies of a plain_acl.yml. Users that are known already stay as they are."""
    from rocketlake.auth.account_text import SUBJECT, acl_entries
    from rocketlake.cli.acl_import import read_plain_acl

    found = read_plain_acl(file)
    for line in found.left:
        typer.secho(f"note: {line}", fg="yellow", err=True)
    rules = {info.subject: list(acl_entries(info)) for info in found.acls}

    known = set() if dry_run else _with(namesrv, lambda admin: admin.add_accounts(found.users, found.acls))
    for user in found.users:
        what = "stays as it is" if user.username in known else "would be made" if dry_run else "is made"
        tell(f"user {user.username} ({user.user_type}) {what}")
        for _, entry in rules.get(SUBJECT + user.username, []) if user.username not in known else []:
            tell(f"  {entry}")


@app.command()
def explain(
    user: User,
    action: Annotated[str, typer.Argument(help="Pub, Sub, Create, Update, Delete, Get or List.", show_default=False)],
    resource: Annotated[str, typer.Argument(help="Topic:NAME, Group:NAME or Cluster:NAME.", show_default=False)],
    host: Annotated[str, typer.Option("--from", help="Address from which the user would ask.")] = "127.0.0.1",
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Say whether a user may do something, and which policy decides. Exit code 8 if it may not."""
    verdict = _with(namesrv, lambda admin: admin.may(user, action, resource, host=host))
    word = "allowed" if verdict.allowed else "refused"
    tell(f"{word}: {verdict.why}", allowed=verdict.allowed, why=verdict.why)
    if not verdict.allowed:
        raise typer.Exit(ExitCode.FINDINGS)


def _decide(word: str, user: str, actions: str, resource: str, sources: list[str] | None, namesrv: str) -> None:
    names = [name.strip() for name in actions.split(",") if name.strip()]

    async def work(admin: Admin) -> PolicyMade:
        decide = admin.allow if word == "Allow" else admin.deny
        return await decide(user, names, resource, sources=sources or ())

    made = _with(namesrv, work)
    instead = f", in place of {made.replaced}" if made.replaced else ""
    tell(
        f"user {user}: {made.entry}{instead}, on {amount(len(made.servers), 'server')}",
        user=user,
        servers=made.servers,
        replaced=str(made.replaced) if made.replaced else None,
    )


def _first_line(path: Path) -> str:
    from rocketlake.base.errors import UsageError

    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the password cannot be read: {error}", hint="give a file that may be read") from None
    if not lines:
        raise UsageError(f"{path} is empty", hint="write the password into its first line")
    return lines[0]


def _with(namesrv: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    from rocketlake.admin import Admin

    async def ask() -> T:
        async with Admin(namesrv=namesrv) as admin:
            return await work(admin)

    return run(ask())
