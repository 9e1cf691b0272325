"""`python -m tests.crash.light_saves PYTHON -m rocketlake ...`: what stands behind, with its light queues saved often.

Owns        how often that is: after a hundred messages, or a quarter of the light queues, and not each ten seconds.
"""

from __future__ import annotations

import runpy
import sys

from rocketlake.broker.lite import light_queues

light_queues._SAVE_EVERY = 100
light_queues._SAVE_SECONDS = 0.05
sys.argv = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
