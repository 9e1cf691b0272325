"""How far streaming queries are: messages behind, time behind, rates, bad rows, losses.

Owns        the sums over Spark's progress, a listener, Prometheus, the terminal.
Must not know   which source a query has.

Start reading at listener.py; `from rocketlake.spark.progress import LagListener`.
"""

from rocketlake.spark.progress.listener import LagListener

__all__ = ["LagListener"]
