"""Message trace: what happened to each message, as the clients themselves tell it.

Owns        making, sending and reading trace records.
Must not know   producers, consumers: they bring the events.   Start reading at tracing.py.
"""
