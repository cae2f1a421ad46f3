"""Spark with storage in S3, in a separate process: the tests' shared session is not configured for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The error that Spark raised."""


class Driver:
    """A driver that runs statements; with `ask` and `answer` several drivers run concurrently."""

    def __init__(self, folder: Path, options: Mapping[str, str], confs: Mapping[str, str]) -> None:
        folder.mkdir()
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(folder / "work"), json.dumps(dict(options)), json.dumps(confs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def sql(self, *statements: str) -> list[Any]:
        """Run statements, and return the rows of the last."""
        self.ask(*statements)
        rows: list[Any] = self.answer()[-1]
        return rows

    def put(self, url: str, text: str) -> None:
        """Write a commit as Delta does, only if none of its name exists."""
        self.sql(f"{_PUT}{url} {text}")

    def ask(self, *statements: str) -> None:
        """Submit statements, which run one after the other, even if one fails."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(statements) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[Any]:
        """Return the rows of each submitted statement; raise the error of the first that failed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(_MARK):
                found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
                if found["errors"]:
                    raise Refused(found["errors"][0])
                rows: list[Any] = found["rows"]
                return rows
        raise AssertionError("the driver ended")

    def close(self) -> None:
        """Close it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


_MARK, _PUT = "answer ", "PUT "


def _serve(folder: Path, options: Mapping[str, str], confs: Mapping[str, str]) -> None:
    from waterclock.engine.spark.jars import delta_jars, object_storage_jars
    from waterclock.engine.spark.object_storage import storage_confs
    from waterclock.engine.spark.session import open_session

    jars = ",".join(jar.as_uri() for jar in (*delta_jars(), *object_storage_jars("s3")))
    own = {"spark.jars": jars, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
    session = open_session("local[2]", folder, {**own, **storage_confs(options), **confs})
    for line in sys.stdin:
        rows: list[Any] = []
        errors = []
        for statement in json.loads(line):
            try:
                if statement.startswith(_PUT):
                    _put(session, *statement.split()[1:])
                    rows.append([])
                else:
                    rows.append([list(row) for row in session.sql(statement).collect()])
            except Exception as raised:  # noqa: BLE001 - handed on, as a text
                errors.append(str(raised))
        sys.stdout.write(f"{_MARK}{json.dumps({'rows': rows, 'errors': errors})}\n")
        sys.stdout.flush()
    session.stop()


def _put(session: Any, url: str, text: str) -> None:
    jvm = session.sparkContext._jvm  # Delta writes in its own way, without Python
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    store: Any = jvm
    for part in session.conf.get("spark.delta.logStore.s3.impl").split("."):
        store = getattr(store, part)
    actions = jvm.java.util.ArrayList()
    actions.add(text)
    store(hadoop).write(jvm.org.apache.hadoop.fs.Path(url), actions.iterator(), False, hadoop)


def main(arguments: Sequence[str]) -> None:
    folder, options, confs = arguments
    _serve(Path(folder), json.loads(options), json.loads(confs))


if __name__ == "__main__":
    main(sys.argv[1:])
