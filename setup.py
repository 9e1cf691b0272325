"""Everything is in pyproject.toml; this adds the compiled twins of build_ext.py."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # an isolated build does not look in the project's folder

from build_ext import Build, extensions

setup(ext_modules=extensions(), cmdclass={"build_ext": Build})
