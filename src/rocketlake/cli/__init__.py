"""The command `rocketlake`.

Owns: commands, their options, what they print. Must not know: how the parts work inside.
Start reading at tree.py. Modules import heavy parts inside the commands: `rocketlake --help` must be quick.
"""
