"""${NAME} and ${NAME:-default} in option values: filled in at the last moment, hidden in everything shown.

Owns        the form of a reference, the source of values, hiding values in texts.
Must not know   which options hold secrets: every value of the environment is treated as a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rocketlake.base.errors import UsageError

__all__ = ["Environment", "has_reference", "references", "refuse_reference"]

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SHOWN_CHARS_MAX = 3
"""A shorter value is no secret, and hiding it would garble every text that holds it."""


def has_reference(text: str) -> bool:
    """True if the text names a variable."""
    return "${" in text


def references(text: str) -> list[tuple[str, str | None]]:
    """(name, default) of each reference."""
    return [(found[1], found[2]) for found in _REFERENCE.finditer(text)]


def refuse_reference(text: str, what: str, where: str) -> None:
    """Refuse references in SQL and schemas: these stand in plans and logs, which must hold no secret."""
    if has_reference(text):
        raise UsageError(
            f"{what} refers to the environment, and would be seen in Spark's plans and logs",
            where=where,
            hint="put environment references into the options of source and sinks",
        )


class Environment:
    """Values of references; keeps the values that it gave out, to hide them again."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables
        self._given: dict[str, str] = {}

    def fill(self, text: str, where: str) -> str:
        """The text with its references replaced. UsageError for a variable that is not set."""

        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            known = self._variables.get(name, default)
            if known is None:
                hint = f"export {name}=..., or give a default: ${{{name}:-...}}"
                raise UsageError(f"environment variable {name} is not set", where=where, hint=hint)
            if name in self._variables and len(known) > _SHOWN_CHARS_MAX:
                self._given[known] = name
            return known

        filled = _REFERENCE.sub(value, text)
        if "${" in _REFERENCE.sub("", text):
            raise UsageError(
                "this is no reference to the environment", where=where, hint="write ${NAME} or ${NAME:-default}"
            )
        return filled

    def hide(self, text: str) -> str:
        """The text with values of the environment as ${NAME} again."""
        for value in sorted(self._given, key=len, reverse=True):
            text = text.replace(value, f"${{{self._given[value]}}}")
        return text
