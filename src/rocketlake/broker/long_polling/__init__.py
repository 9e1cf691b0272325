"""Requests that wait for a message.

Owns        which requests wait for which queue, and until when.
Must not know   how a request is answered.
Start reading at    pull_hold.py
"""
