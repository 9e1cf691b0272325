"""The features of the broker, each built with its tables, background services and rows of the dispatch table.

Owns        how the parts of each feature are put together; one module a wing.
Must not know   the work of the parts.
Start reading at    wing.py, then sending.py
"""
