"""Receiving: push (a listener is called), pull (you poll) and `async for`.

Owns        who gets which queue, what is in hand, which offset is safe to commit.
Must not know   producers.   Start reading at push.py.
"""
