"""`make bench-growth`: does anything cost more with time, or with ten times as much of something?

Owns: loads that run for ten minutes, loads at 1x and 10x. Must not know: Apache's side; only our own broker is asked.
Start reading at __main__.py.
"""
