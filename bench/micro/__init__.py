"""Single functions: compiled twins against their Python form, on recorded input.

Owns        which functions are measured, on what.
Must not know   brokers and sockets (bench/). Start reading at __main__.py.
"""
