"""Contexts: named clusters with the user and the certificates to reach them, each a file that only its owner may read.

Owns        the files under ~/.config/rocketlake/contexts, the one in use, the variables that a context sets.
Must not know   options and output of commands.

A secret is kept in the file, or only named there: env:NAME, file:PATH. Nothing prints it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Context", "apply_context", "context_in_use", "current", "load", "names", "remove", "save", "use"]

_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CURRENT = "current"
_SUFFIX = ".json"
_in_use: list[str] = []


@dataclass(frozen=True, slots=True)
class Context:
    """How a cluster is reached. `secret`: the secret key, or env:NAME, file:PATH where it is. "" is: not given."""

    namesrv: str = ""
    user: str = ""
    secret: str = ""
    tls_config: str = ""

    @property
    def secret_named(self) -> str:
        """Where the secret is, for people; never the secret."""
        is_named = self.secret.startswith(("env:", "file:"))
        return self.secret if is_named else "in the context's file" if self.secret else ""


def contexts_folder() -> Path:
    """$XDG_CONFIG_HOME/rocketlake/contexts, else ~/.config/rocketlake/contexts."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "rocketlake" / "contexts"


def names() -> list[str]:
    """All contexts."""
    folder = contexts_folder()
    return sorted(path.stem for path in folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []


def current() -> str:
    """The one that `use` chose; "" if none was."""
    try:
        return (contexts_folder() / _CURRENT).read_text("utf-8").strip()
    except OSError:
        return ""


def save(name: str, context: Context) -> Path:
    """Write it, for its owner alone. UsageError for a name that is none."""
    from rocketlake.base.errors import UsageError

    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a context", hint="use letters, digits, - _ . : 64 at most")
    return _write(_path(name), json.dumps(asdict(context), indent=2))


def load(name: str) -> Context:
    """Read it. NotThereError if there is none; UsageError if others may read its secret."""
    from rocketlake.base.errors import NotThereError, UsageError

    path = _path(name)
    try:
        values = json.loads(path.read_text("utf-8"))
        context = Context(**values)
    except (FileNotFoundError, NotADirectoryError):
        hint = f"`rocketlake context list` shows {', '.join(names()) or 'none yet'}; `rocketlake context add` makes one"
        raise NotThereError(f"there is no context {name}", where=str(path), hint=hint) from None
    except (OSError, ValueError, TypeError) as error:
        hint = "remove it, and make it again with `rocketlake context add`"
        raise UsageError(f"the context cannot be read: {type(error).__name__}", where=str(path), hint=hint) from None
    if context.secret and not context.secret.startswith(("env:", "file:")) and _others_may_read(path):
        raise UsageError("others may read the secret of this context", where=str(path), hint=f"chmod 600 {path}")
    return context


def use(name: str) -> None:
    """Every command uses it from now on, until another one is named. NotThereError if there is none."""
    load(name)
    _write(contexts_folder() / _CURRENT, name + "\n")


def remove(name: str) -> None:
    """Forget it. NotThereError if there is none."""
    load(name)
    if current() == name:
        (contexts_folder() / _CURRENT).unlink()
    _path(name).unlink()


def context_in_use() -> str:
    """The name of the one that this command uses; "" without one."""
    return _in_use[-1] if _in_use else ""


def apply_context(name: str | None) -> None:
    """Set the variables that clients read. A context that is not named here leaves alone what is set already."""
    is_named = name is not None
    name = name or current()
    _in_use[:] = [name] if name else []
    if not name:
        return
    context = load(name)
    given = {"NAMESRV_ADDR": context.namesrv, "ROCKETLAKE_TLS_CONFIG": context.tls_config}
    if not is_named and "NAMESRV_ADDR" in os.environ:
        _in_use.clear()  # the variable names another cluster: no user of the context is told to it
        return
    if context.user:
        from rocketlake.auth.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE

        given |= {ACCESS_KEY_VARIABLE: context.user, SECRET_KEY_VARIABLE: _secret(name, context.secret)}
    os.environ.update({variable: value for variable, value in given.items() if value})


def _secret(name: str, text: str) -> str:
    from rocketlake.base.errors import UsageError

    kind, _, where = text.partition(":")
    if kind == "env":
        if value := os.environ.get(where, ""):
            return value
        raise UsageError(f"the secret of context {name} is not there", where=f"variable {where}", hint=f"set {where}")
    if kind == "file":
        try:
            return Path(where).expanduser().read_text("utf-8").splitlines()[0]
        except (OSError, IndexError):
            hint = "write the secret into its first line"
            raise UsageError(f"the secret of context {name} cannot be read", where=where, hint=hint) from None
    return text


def _path(name: str) -> Path:
    return contexts_folder() / f"{name}{_SUFFIX}"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(path.name + ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
    return path


def _others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
