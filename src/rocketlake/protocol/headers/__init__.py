"""Typed headers of requests and answers; wire names exist only here and in bodies.

Owns: names, types, defaults of header fields. Must not know: bytes, handlers.
Start reading at send.py. Convert with Command.request(code, header) and command.header(Class).
"""
