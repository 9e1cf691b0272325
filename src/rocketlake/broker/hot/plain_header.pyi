# plain_header.pyx has nothing for Python.
