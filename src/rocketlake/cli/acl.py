"""`rocketlake acl ...`: the users of a cluster, and what they may do.

Owns        options and output of these commands.
Must not know   which servers are asked (admin/accounts.py), how an entry decides (rocketlake.auth).
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
    from rocketlake.admin.accounts import ClusterAccounts
    from rocketlake.auth.account_text import AclInfo
    from rocketlake.auth.action import Need

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

    found = _with(namesrv, lambda accounts: accounts.users())
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
    from rocketlake.auth.account_text import QuotaInfo, UserInfo
    from rocketlake.auth.user import new_password

    password = new_password() if password_file is None else _first_line(password_file)
    quota = QuotaInfo(quota_bytes_in, quota_requests_in, quota_bytes_out, quota_requests_out)
    info = UserInfo(user, password, "Super" if is_super else "Normal", quota=quota)
    servers = _with(namesrv, lambda accounts: accounts.put_user(info, is_new=True))
    tell(f"user {user} is known to {amount(len(servers), 'server')}", user=user, servers=servers)
    if password_file is None:
        tell(f"accessKey: {user}\nsecretKey: {password}", access_key=user, secret_key=password)


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
    from rocketlake.auth.account_text import QuotaInfo, UserInfo

    info = UserInfo(
        user,
        None if password_file is None else _first_line(password_file),
        None if is_super is None else "Super" if is_super else "Normal",
        None if disable is None else "disable" if disable else "enable",
        QuotaInfo(quota_bytes_in, quota_requests_in, quota_bytes_out, quota_requests_out),
    )

    async def work(accounts: ClusterAccounts) -> list[str]:
        await accounts.user(user)
        return await accounts.put_user(info, is_new=False)

    servers = _with(namesrv, work)
    tell(f"user {user} is changed on {amount(len(servers), 'server')}", user=user, servers=servers)


@app.command()
def remove(user: User, yes: Yes = False, dry_run: DryRun = False, namesrv: Namesrv = NAMESRV_DEFAULT) -> None:
    """Delete a user with its policies."""
    more = "Its clients are refused from then on."
    if not agreed(f"delete user {user}", yes=yes, dry_run=dry_run, more=more, user=user):
        return
    servers = _with(namesrv, lambda accounts: accounts.drop_user(user))
    tell(f"user {user} is deleted on {amount(len(servers), 'server')}", user=user, servers=servers)


@app.command("show")
def show_policies(
    user: Annotated[str, typer.Argument(help="Only of this user.", show_default=False)] = "",
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """List policies."""
    found = _with(namesrv, lambda accounts: accounts.acls(user))
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
    servers = _with(namesrv, lambda accounts: accounts.drop_policies(user, resource))
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

    async def work(accounts: ClusterAccounts) -> set[str]:
        known = {user.username for user in await accounts.users()}
        for user in found.users:
            if user.username not in known:
                await accounts.put_user(user, is_new=True)
        for info in found.acls:
            if (info.subject or "").removeprefix(SUBJECT) not in known:
                await accounts.put_policies(info)
        return known

    known = set() if dry_run else _with(namesrv, work)
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
    from rocketlake.auth.policy import Acl

    need = _need(action, resource)

    async def work(accounts: ClusterAccounts) -> tuple[bool, str]:
        info = await accounts.user(user)
        if (info.user_status or "").lower() == "disable":
            return False, f"user {user} is disabled"
        if (info.user_type or "").lower() == "super":
            return True, f"{user} is a super user"
        verdict = (await accounts.acls(user)).get(user, Acl()).verdict(need, host)
        return verdict.allowed, verdict.why

    allowed, why = _with(namesrv, work)
    tell(f"{'allowed' if allowed else 'refused'}: {why}", allowed=allowed, why=why)
    if not allowed:
        raise typer.Exit(ExitCode.FINDINGS)


def _decide(decision: str, user: str, actions: str, resource: str, sources: list[str] | None, namesrv: str) -> None:
    from rocketlake.auth.account_text import acl_entries

    info = _acl(decision, user, actions, resource, sources)
    ((_, entry),) = acl_entries(info)  # a bad one is refused here, before any server has it

    async def work(accounts: ClusterAccounts) -> list[str]:
        await accounts.user(user)
        return await accounts.put_policies(info)

    servers = _with(namesrv, work)
    tell(f"user {user}: {entry}, on {amount(len(servers), 'server')}", user=user, servers=servers)


def _acl(decision: str, user: str, actions: str, resource: str, sources: list[str] | None) -> AclInfo:
    from rocketlake.auth.account_text import SUBJECT, AclInfo, EntryInfo, PolicyInfo

    names = [name.strip() for name in actions.split(",") if name.strip()]
    return AclInfo(SUBJECT + user, [PolicyInfo("Custom", [EntryInfo(resource, names, sources or None, decision)])])


def _need(action: str, text: str) -> Need:
    from rocketlake.auth.account_text import action_of
    from rocketlake.auth.action import Kind, Need, on_topic
    from rocketlake.auth.policy import Resource
    from rocketlake.base.errors import UsageError

    resource = Resource.parse(text)
    if resource.is_prefix:
        raise UsageError(f"{text} is no single resource", hint="name one, such as Topic:orders")
    asked = action_of(action)
    return (
        on_topic(resource.name, asked) if resource.kind is Kind.TOPIC else Need(resource.kind, resource.name, (asked,))
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


def _with(namesrv: str, work: Callable[[ClusterAccounts], Awaitable[T]]) -> T:
    from rocketlake.admin.accounts import ClusterAccounts
    from rocketlake.admin.cluster import Cluster

    async def ask() -> T:
        async with Cluster(namesrv) as cluster:
            return await work(ClusterAccounts(cluster))

    return run(ask())
