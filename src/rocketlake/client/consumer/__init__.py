"""Receiving: push (a listener is called), pull (you poll) and `async for`.

Owns        the sharing of queues, the messages in hand, the offsets that are safe to commit.
Must not know   producers.   Start reading at push.py.
"""
