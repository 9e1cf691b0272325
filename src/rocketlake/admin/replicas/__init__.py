"""Groups of brokers under a controller: asked.py asks it, state.py says what its answers mean, change.py changes them.

Owns        what administrators ask of a controller.
Must not know   the terminal.   Start reading at change.py.
"""
