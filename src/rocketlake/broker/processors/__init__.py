"""Serves the requests: one file for each family of requests.

Owns        the order of checks, response codes, answers.
Must not know   each other, the broker as a whole; a processor gets the parts it needs.
Start reading at    send.py
"""
