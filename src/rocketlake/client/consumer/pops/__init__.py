"""Consumers that pop: messages are handed out for a while, each is acknowledged by itself.

Owns        the simple consumer, POP mode of a push consumer, renewals.
Must not know   the broker, pulls.   Start reading at simple.py.
"""
