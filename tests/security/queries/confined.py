"""A process with a confined Spark: runs code past both checks, and prints the successful actions as JSON.

The arguments are the work folder, a path that may be read, and one that may not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waterclock.engine.spark.session import Sessions

work, readable, secret = map(Path, sys.argv[1:])
sessions = Sessions(work_folder=work, readable=[readable])
spark = sessions.own()


def java(*words: str) -> str:
    return f"SELECT CAST(reflect({', '.join(repr(word) for word in words)}) AS STRING)"


def shell(command: str) -> str:
    return f"""SELECT TRANSFORM('x') USING "bash -c '{command}'" AS (x STRING)"""


def came(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except Exception as error:  # noqa: BLE001 - for any reason
        return f"refused {type(error).__name__}"


def rows(text: str) -> Callable[[], Any]:
    return lambda: [row[0] for row in spark.sql(text).collect()]


def upper(text: str) -> str:
    return text.upper()


spark.udf.register("upper_in_python", upper, "string")
tries = {
    "readable": rows(f"SELECT value FROM text.`{readable}/a.txt`"),
    "python": rows("SELECT upper_in_python('a')"),
    "shuffle": rows("SELECT count(*) FROM (SELECT id % 7 AS k, collect_list(id) FROM range(1000) GROUP BY 1)"),
    "secret by Spark": rows(f"SELECT value FROM text.`{secret}`"),
    "secret by Java": rows(java("java.nio.file.Files", "readString", str(secret))),
    "secret by a command": rows(shell(f"cat {secret} 2>&1; true")),
    "own environment": rows(java("java.lang.System", "getenv", "WATERCLOCK_CANARY")),
    "environment of a command": rows(shell("echo got $WATERCLOCK_CANARY")),
    "environment of the parent": rows(shell(f"cat /proc/{os.getpid()}/environ 2>&1 | tr -d \\\\\\\\0; true")),
    "signal": rows(shell(f"kill -0 {os.getpid()} 2>&1 && echo sent; true")),
    "xpath": rows(f"""SELECT xpath_string('<!DOCTYPE a SYSTEM "file://{readable}/a.dtd"><a>&e;</a>', 'a')"""),
    "mode": rows(
        shell(f"chmod 666 {secret} {work}; touch -d 2001-01-01 {secret}; setfattr -n user.a -v b {secret}; true")
    ),
    "write": rows(shell(f"touch {readable}/made {secret}.made /tmp/made-by-a-query; true")),
}
found = {name: came(ask) for name, ask in tries.items()}
found["mode after"] = oct(secret.stat().st_mode & 0o777) + str(secret.stat().st_mtime > 1_000_000_000)
found["accumulators"] = str(spark.sparkContext._accumulatorServer)
found["path"] = str([each for each in sys.path if each.startswith(str(work))])
found["log"] = str((work.parent / "jvm.log").is_file() and not (work / "jvm.log").exists())
found["made"] = str([str(path) for path in (readable / "made", Path(f"{secret}.made")) if path.exists()])
sessions.close()
sys.stdout.write(json.dumps(found))
