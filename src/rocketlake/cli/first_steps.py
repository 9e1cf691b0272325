"""What `rocketlake up` prints for the next terminal: commands that work against these servers as they were started.

Owns        the options and variables by which a command reaches servers with another port, certificates or users.
Must not know   how servers start (serve.py); whom a server lets in.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from rocketlake.auth.account_file import FIRST_USER
from rocketlake.auth.account_text import parse_accounts
from rocketlake.auth.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE

__all__ = ["FirstSteps"]


class FirstSteps:
    """The lines for servers with the name server `namesrv` and these settings, whose files lie in `folder`.

    To be made once they are up: a first start makes its first user.
    """

    def __init__(self, namesrv: str, settings: Mapping[str, str], folder: Path) -> None:
        self._at = "" if namesrv == "127.0.0.1:9876" else f" -n {namesrv}"
        certificates = settings.get("tlsConfigFile", "")
        self._before = ""
        if certificates and settings.get("tlsMode") == "enforcing":
            self._before = f" --tls-config {shlex.quote(certificates)}"
        self._is_guarded = settings.get("authenticationEnabled", "").strip().lower() == "true"
        self._password: Path | None = None
        if self._is_guarded:
            given = settings.get("accountsPath", "")
            accounts = Path(given).expanduser() if given else folder / "accounts.json"
            self._password = _password_that_holds(accounts.absolute())
            if self._password is None:
                self._before += " --credentials FILE"

    def users(self) -> str:
        """The line that says who is served; "" for everybody."""
        if not self._is_guarded:
            return ""
        how = "FILE below has the lines accessKey: NAME and secretKey: KEY of one"
        if self._password is not None:
            how = f"the secret key of {FIRST_USER} is in {self._password}"
        return f"  users         only known ones; {how}"

    def commands(self, *third: str) -> list[str]:
        """Lines to type, the last with the words of one more command."""
        lines = ["consume orders", 'produce orders "hello"', " ".join(third)]
        signing = []
        if self._password is not None:
            secret = f'"$(cat {shlex.quote(str(self._password))})"'
            signing = [f"  export {ACCESS_KEY_VARIABLE}={FIRST_USER} {SECRET_KEY_VARIABLE}={secret}"]
        return signing + [f"  rocketlake{self._before} {line}{self._at}" for line in lines]


def _password_that_holds(accounts: Path) -> Path | None:
    """The file in which the first start left the secret of its first user, if that is still the secret."""
    path = accounts.with_name("admin_password")
    try:
        users, _ = parse_accounts(accounts.read_text("utf-8"))
        first, written = users.get(FIRST_USER), path.read_text("utf-8").strip()
    except OSError:
        return None
    return path if first is not None and first.is_enabled and first.password == written else None
