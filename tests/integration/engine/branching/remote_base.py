"""Production with its storage in a bucket and its ledger in PostgreSQL, and a read-only user of both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import postgres, s3
from tests.branches import Branched
from tests.tiny import day, described
from waterclock.files.filesystem import entry_path, files_below, read_bytes
from waterclock.files.object_stores import register_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOML = """
[project]
name = "tiny"
env = "prod"
[defaults]
start = "2020-01-01"
[env.prod]
storage = "s3://{bucket}/lake"
ledger = {{ secret = "ledger" }}
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
[env.prod.storage_options]
endpoint = "{endpoint}"
region = "us-east-1"
access_key_id = {{ secret = "s3_key" }}
secret_access_key = {{ secret = "s3_secret" }}
[env.try]
from = "prod"
{own}
"""
FLOW = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, {net} AS net FROM shop.sales;
TRANSFORM marts.same PARTITIONED AS SELECT count(*) AS n FROM shop.sales;
TRANSFORM marts.running (net BIGINT) AS SELECT t.net + p.net AS net
  FROM (SELECT coalesce(sum(net), 0) AS net FROM marts.net) t
  CROSS JOIN (SELECT coalesce(max(net), 0) AS net FROM PREVIOUS(marts.running)) p;
"""
SALES = [(n, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(4)]
NOW = day(3)
Digests = tuple[Mapping[str, str], Mapping[str, tuple[int, str]]]


@dataclass
class RemoteBase:
    """A project whose production is remote, as its owner uses it, and the logins of its readers.

    The branch `try` is stored in the folder of the project, or in the bucket below `branches/try`.
    """

    project: Branched
    bucket: str
    schema: str
    reader: Mapping[str, str]
    owner: Mapping[str, str]

    @property
    def root(self) -> Path:
        return self.project.root

    @contextmanager
    def only_reading(self) -> Iterator[None]:
        """Use the login that may only read production, as a pull request job does; restore the owner's at the end."""
        self._log_in(self.reader)
        try:
            yield
        finally:
            self._log_in(self.owner)

    def _log_in(self, secrets: Mapping[str, str]) -> None:
        folder = self.root / "secrets"
        folder.mkdir(exist_ok=True)
        for name, value in secrets.items():
            (folder / name).write_text(value)
        options = s3.server().options(key=secrets["s3_key"], secret=secrets["s3_secret"])
        register_bucket(f"s3://{self.bucket}", options)
        s3.reach(self.project.spark, self.bucket, options)

    def digest_of_all(self) -> Digests:
        """Return the digests of production."""
        return digest_of_production(self.bucket, self.schema)


def digest_of_production(bucket: str, schema: str) -> Digests:
    """Return the digests of all objects of production, and the number of rows and a digest of each ledger table."""
    at = entry_path(f"s3://{bucket}", "lake")
    objects = {
        file.path: hashlib.sha256(read_bytes(at / file.path)).hexdigest() for file in files_below(at) if file.size
    }
    server = postgres.server()
    names = server.run(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'r'",
        schema,
    )
    rows = {
        str(name): server.run(
            "SELECT count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '')"
            f' FROM {schema}."{name}" AS t'
        )[0]
        for (name,) in names
    }
    assert len(objects) > 20
    assert rows["revisions"][0] > 0
    return objects, rows


def write_project_file(root: Path, bucket: str, *, branch_in_bucket: bool) -> None:
    """Declare production in the bucket, and the branch `try` in the project's folder or in the bucket."""
    own = f'storage = "s3://{bucket}/branches/try"' if branch_in_bucket else ""
    toml = _TOML.format(bucket=bucket, endpoint=s3.server().endpoint, own=own)
    (root / "waterclock.toml").write_text(toml)


def make_remote_base(root: Path, spark: SparkSession, *, branch_in_bucket: bool, flow: str = FLOW) -> RemoteBase:
    """Make two days in production, and change the flow in the project's files."""
    key, secret = s3.server().new_user()
    bucket = s3.server().new_bucket_with_policy(lambda arn: _statements(arn, key))
    options = s3.server().options()
    project = Branched(root, spark, toml=None)
    write_project_file(root, bucket, branch_in_bucket=branch_in_bucket)
    server, schema = postgres.server(), postgres.server().fresh_schema()
    role = f"r{schema}"
    owner = {"s3_key": options["access_key_id"], "s3_secret": options["secret_access_key"]}
    found = RemoteBase(
        project,
        bucket,
        schema,
        {"s3_key": key, "s3_secret": secret, "ledger": f"{server.url_of(role)}?schema={schema}"},
        {**owner, "ledger": server.ledger_url(schema)},
    )
    found._log_in(found.owner)
    project.source("sales", "id INTEGER, amount INTEGER, at TEXT", SALES)
    project.declare(flow.format(net="amount"))
    outcome = project.run(NOW)
    assert not outcome.failed, described(outcome)
    for sql in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    ):
        server.run(sql)
    project.declare(flow.format(net="amount * 10"))
    return found


def _statements(arn: str, reader: str) -> Sequence[Mapping[str, Any]]:
    """Return the policy statements of the page on branches, for a user of the server."""
    return [
        {"Effect": "Allow", "Principal": reader, "Action": ["s3:ListBucket"], "Resource": arn},
        {"Effect": "Allow", "Principal": reader, "Action": ["s3:GetObject"], "Resource": f"{arn}/lake/*"},
        {
            "Effect": "Allow",
            "Principal": reader,
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": f"{arn}/branches/*",
        },
    ]
