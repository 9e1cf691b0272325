"""The features of the broker, each built with its tables, background services and rows of the dispatch table.

Owns        which part gets which; one module a wing.
Must not know   what any part does.
Start reading at    wing.py, then sending.py
"""
