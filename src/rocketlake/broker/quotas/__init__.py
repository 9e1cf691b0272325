"""Quotas: how much of a broker one user, or one topic, may have in a second.

Owns        what is counted, and who must wait.
Must not know   where quotas are kept, how a request waits.
Start reading at    quotas.py
"""
