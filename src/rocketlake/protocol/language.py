"""The language codes of peers.

Owns        names and numbers of LanguageCode.
Must not know   the effect of a language (only CPP has one, in the reset-offset push).
"""

from __future__ import annotations

from typing import Final

LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""Names by number."""

LANGUAGE_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(LANGUAGES)}
"""Numbers by name."""

OUR_LANGUAGE: Final = "PYTHON"
UNKNOWN_LANGUAGE: Final = "OTHER"
"""The name for a number that is in no list."""


def language_name(code: int) -> str:
    """The name of a language number; `OTHER` for a number no list has."""
    return LANGUAGES[code] if 0 <= code < len(LANGUAGES) else UNKNOWN_LANGUAGE
