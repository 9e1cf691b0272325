"""The command `rocketlake`.

Owns        commands, their options, their output.
Must not know   how the parts work inside.   Start reading at tree.py.

Modules import heavy parts inside the commands, so that `rocketlake --help` is quick.
"""
