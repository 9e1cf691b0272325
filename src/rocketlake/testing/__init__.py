"""A kit to test programs against a real cluster in the test's own process.

Owns: pytest fixtures and the embedded cluster. Must not know: anybody's tests. Start reading at plugin.py.
"""
