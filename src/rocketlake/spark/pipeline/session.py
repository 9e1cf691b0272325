"""A Spark session for a pipeline or another command, with its log in files.

Owns        settings of a local session, the files of Spark's log, Ctrl-C beside Java.
Must not know   pipelines.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from rocketlake.base.errors import UsageError
from rocketlake.spark.java import provide_java

__all__ = ["CONNECT", "command_session", "local_session", "silence_error_logs", "stopping_signals"]

CONNECT = "sc://"
"""Begins the address of a Spark Connect server, in the place of a master."""
_LOG4J = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.append = false
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 50MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def local_session(
    name: str, folder: Path, *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Spark with its log, scratch files and warehouse under `folder`.

    Spark prints nothing to the terminal; one line goes to stderr if Java is the package's. Raises UsageError without a
    Java that can run Spark.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if which_java := provide_java(folder / "java"):
        print(which_java, file=sys.stderr)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOG4J.format(level="warn", file=folder / "spark.log"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run where this package is installed
    # In a job of minutes early compilation gains more than the best compilation.
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={logging.as_uri()}"
    values = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{java} -Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        # Rows go between Java and its Python workers: loopback TCP costs both sides more.
        "spark.python.unix.domain.socket.enabled": "true",
    } | dict(settings or {})
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in values.items():
        builder = builder.config(key, value)
    silence_error_logs()
    try:
        with _deaf_to_interrupts(), _words_to(folder / "java.log"):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise UsageError(
            f"Java ended before Spark was up; it wrote {folder / 'java.log'}",
            hint="read the lines above; Spark needs Java 17 or newer (java -version; JAVA_HOME chooses another)",
        ) from None


@contextmanager
def command_session(name: str, *, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for one command, and the name of its log if the command fails. `master` `sc://host:port`: Connect."""
    if master.startswith(CONNECT):
        silence_error_logs()
        builder = SparkSession.builder.remote(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        remote = builder.getOrCreate()
        with _stopped_behind(remote):
            yield remote
        return
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-spark-"))
    try:
        spark = local_session(name, folder, master=master, settings=settings)
        with _stopped_behind(spark):
            yield spark
    except Exception:
        print(f"Spark's log: {folder / 'spark.log'}", file=sys.stderr)
        raise
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _stopped_behind(spark: SparkSession) -> Iterator[None]:
    """Stop the session behind the block. If that fails, too, the error of the block counts: Java may have died."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            spark.stop()
        raise
    spark.stop()


@contextmanager
def stopping_signals() -> Iterator[threading.Event]:
    """Ctrl-C and `kill` set the event; a second one ends the command at once.

    An exception from a signal handler could strike in the middle of a call to Java; that link could then not be used to
    stop the queries.
    """
    told = threading.Event()

    def stop(*_: object) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def silence_error_logs() -> None:
    """Silence PySpark, which prints an error with Java's whole stack before raising it; our callers report it."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C goes to every process of a terminal: have Java and Spark's Python workers ignore it.

    So the queries still run when this process stops them in good order.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _words_to(file: Path) -> Iterator[None]:
    """Have Java and the Python processes that it starts write their complaints about the stop to this file."""
    terminal = os.dup(2)
    with file.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except BaseException:
        os.write(terminal, file.read_bytes()[-4000:])  # no Java, too little memory: this file names the reason
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
