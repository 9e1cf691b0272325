"""The foundation of all packages: errors, clock, files, waiting, text of Java peers.

Owns        the seams to the outside (clock, files) and the root of the exception tree.
Must not know   RocketMQ. Start reading at errors.py, clock.py, disk/seam.py.
"""
