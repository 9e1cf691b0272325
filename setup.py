"""pyproject.toml holds the settings of the package; this file adds the compiled modules of build_ext.py."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # an isolated build does not look in the project's folder

from build_ext import Build, extensions

setup(ext_modules=extensions(), cmdclass={"build_ext": Build})
