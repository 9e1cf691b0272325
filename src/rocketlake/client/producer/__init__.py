"""Sending: one message, many, one-way, with retries on another broker.

Owns        which queue a message goes to and what happens when a send fails.
Must not know   consumers.   Start reading at producer.py.
"""
