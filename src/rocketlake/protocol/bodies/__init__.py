"""Typed JSON bodies of requests and answers; wire names exist only here and in headers.

Owns: shapes, the fastjson dialect of each. Must not know: tables, handlers.
Start reading at body.py, then heartbeat.py.
"""
