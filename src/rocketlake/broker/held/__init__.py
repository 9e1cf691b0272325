"""Requests that wait: the one place where the broker keeps them.

Owns        requests held for one outcome (requests.py), waiters with a key and a deadline (wait_list.py).
Must not know   what is waited for, how an answer is made.
Start reading at    wait_list.py
"""
