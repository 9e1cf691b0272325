"""When failed messages of a group come again: the words of the command line, and RocketMQ's settings for them.

Owns        the form of pauses on the command line, the settings that hold them.
Must not know   how a group is asked (admin/groups.py), when a message fails.

RocketMQ never uses the first two of a list of pauses, so a list of ours begins with its first pause three times.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.model.moment import parse_length
from rocketlake.protocol.bodies.group import CustomizedRetry, ExponentialRetry, RetryPolicyEntry

__all__ = ["policy_text", "read_growing", "read_pauses"]

_UNUSED = 2
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))
_PAUSES_MAX = 64


def read_pauses(text: str) -> RetryPolicyEntry:
    """`10s,1m,10m`: pauses one by one, the last one again and again. UsageError names the bad one."""
    steps = [parse_length("--pauses", word) for word in text.split(",")]
    if len(steps) > _PAUSES_MAX:
        raise UsageError(f"--pauses has {len(steps)} of them", hint=f"give at most {_PAUSES_MAX}; the last one repeats")
    return RetryPolicyEntry(
        type="CUSTOMIZED", customized_retry_policy=CustomizedRetry(next=steps[:1] * _UNUSED + steps)
    )


def read_growing(text: str) -> RetryPolicyEntry:
    """`5s,2,2h`: the first pause, the factor from one to the next, the longest. UsageError for other forms."""
    words = text.split(",")
    if len(words) != 3 or not words[1].strip().isdecimal() or not 1 <= int(words[1]) <= 100:
        raise UsageError(f"--growing is {text!r}", hint="write first pause, factor (1 to 100), longest pause: 5s,2,2h")
    first, longest = parse_length("--growing", words[0]), parse_length("--growing", words[2])
    growing = ExponentialRetry(initial=first, max=longest, multiplier=int(words[1]))
    return RetryPolicyEntry(type="EXPONENTIAL", exponential_retry_policy=growing)


def policy_text(policy: RetryPolicyEntry) -> str:
    """The policy in words: `after 10s, 1m, 10m`."""
    if policy.type == "EXPONENTIAL":
        growing = policy.exponential_retry_policy or ExponentialRetry()
        first, longest = _length(growing.initial), _length(growing.max)
        return f"after {first}, each pause {growing.multiplier} times the one before, {longest} at most"
    steps = policy.customized_retry_policy.next if policy.customized_retry_policy else []
    if len(steps) <= _UNUSED:
        return "after the delay levels of the broker, from level 3 on"
    return f"after {', '.join(map(_length, steps[_UNUSED:]))}"


def _length(ms: int) -> str:
    for unit_ms, unit in _UNITS:
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms}{unit}"
    return f"{ms} ms"
