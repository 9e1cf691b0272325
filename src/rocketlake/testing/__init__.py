"""A kit to test programs against a real cluster in the test's own process.

Owns        pytest fixtures, the embedded cluster, simulated clusters.
Must not know   the tests of any project.   Start reading at plugin.py; simulations: simulation.py.
"""
