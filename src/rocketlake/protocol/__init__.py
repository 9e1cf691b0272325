"""The remoting protocol, sans-IO.

Owns: frames, headers, commands, bodies. Must not know: sockets, clocks, tasks, the store.
Start reading at connection.py, then headers/send.py.
"""
