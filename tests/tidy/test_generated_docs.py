"""The generated reference pages are what `make docs` would write now."""

from __future__ import annotations

from docs.generate import pages


def test_reference_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in pages().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run `make docs` and commit the result"
