"""What the documents promise of the messages of one key, told by those who see them.

Owns        the order of each key: no number is passed over, a step back repeats all behind it, one member has a key.
Must not know   where the messages come from.
"""

from __future__ import annotations


class KeyOrder:
    """Numbers from 0 on for each key; `problems` are in words."""

    def __init__(self, keys: int) -> None:
        self.last = dict.fromkeys(range(keys), -1)
        """By key: the number seen last."""
        self.repeats = 0
        self.problems: list[str] = []
        self._most = dict.fromkeys(range(keys), -1)
        self._holders: dict[int, str] = {}

    def begin(self, member: str, key: int, number: int) -> None:
        """The member has this message in hand."""
        holder = self._holders.get(key)
        if holder is not None:
            self.problems.append(f"{member} has {key} {number} while {holder} has the key")
        self._holders[key] = member
        if number > self.last[key] + 1:
            self.problems.append(f"{member} has {key} {number} behind {self.last[key]}")
        self.repeats += number <= self._most[key]
        self.last[key], self._most[key] = number, max(number, self._most[key])

    def end(self, member: str, key: int) -> None:
        """The member is through with its message of this key."""
        if self._holders.get(key) == member:
            del self._holders[key]

    def gone(self, member: str) -> None:
        """The member is dead, with what it had in hand."""
        self._holders = {key: holder for key, holder in self._holders.items() if holder != member}

    def are_seen(self, messages: int) -> bool:
        """True when the last number seen of each key is the last of so many."""
        return set(self.last.values()) == {messages - 1}
