"""Translates the options of buckets into the confs of Spark and its S3A.

Delta's own log store for S3 looks whether a version is free and writes then: of two processes that commit at once one
replaces the other's commit without a word, and no setting of Hadoop 3.5 changes that. `ConditionalLogStore` asks S3 to
write a commit only where its version is free, as delta-rs does (docs/decisions/spark-commits-to-s3.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.object_stores import Store
from waterclock.storage.spark_settings import LOG_STORE, LOG_STORE_OF_S3

_S3A = "spark.hadoop.fs.s3a."
_CREDENTIALS = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
# as object_store looks: the environment, a web identity, a profile, a container's role, a machine's
_DEFAULT_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_S3A_PROVIDER = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"

# the same for every store
_SETTINGS = {
    LOG_STORE_OF_S3: LOG_STORE,
    "spark.delta.logStore.s3a.impl": LOG_STORE,
    # a table has one URL, and delta-rs knows s3:// alone
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    # a job's files are uploads that its commit completes: none is copied, as a rename in S3 would
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    f"{_S3A}committer.name": "magic",
    f"{_S3A}committer.magic.track.commits.in.memory.enabled": "true",
    # what lies at a place is not looked at before each file and folder is made: names are new
    f"{_S3A}performance.flags": "create,delete,mkdir",
    # not on disk: S3A asks Hadoop for the local files with checksums, which our sessions are without
    f"{_S3A}fast.upload.buffer": "bytebuffer",
    f"{_S3A}multipart.size": "16M",  # of each file that is being written so much is set aside
    # the defaults try for a quarter of an hour; these give up on a store that is not there within a minute
    f"{_S3A}attempts.maximum": "3",
    f"{_S3A}retry.limit": "3",
    f"{_S3A}connection.establish.timeout": "5s",
    f"{_S3A}connection.timeout": "60s",
}


def confs_of_stores(stores: Sequence[Store]) -> dict[str, str]:
    """Return the confs with which Spark reaches stores: the first by what holds for all, others bucket by bucket."""
    buckets = [store for store in stores if store.scheme == "s3"]
    if not buckets:
        return {}
    first, *others = (storage_confs(store.options) for store in buckets)
    for store, confs in zip(buckets[1:], others, strict=True):
        name = store.bucket.rpartition("/")[2]
        first |= {
            f"{_S3A}bucket.{name}.{key.removeprefix(_S3A)}": value
            for key, value in confs.items()
            if first.get(key) != value
        }
    return first


def storage_confs(options: Mapping[str, str]) -> dict[str, str]:
    """Return the confs with which Spark reads and writes what object_store does by `options`, at s3:// and s3a://.

    `options` are those of `object_stores.OPTIONS`. Without keys they are looked for as AWS's tools do. A server that is
    named by its endpoint is asked by path, as most want it.
    """
    return _SETTINGS | _credentials(options) | _place(options)


def _credentials(said: Mapping[str, str]) -> dict[str, str]:
    given = {f"{_S3A}{key}": said[name] for name, key in _CREDENTIALS.items() if said.get(name)}
    if not given:
        provider = _DEFAULT_CHAIN
    else:
        provider = _S3A_PROVIDER.format("Temporary" if said.get("session_token") else "Simple")
    return given | {f"{_S3A}aws.credentials.provider": provider}


def _place(said: Mapping[str, str]) -> dict[str, str]:
    endpoint = said.get("endpoint", "")
    by_host = said.get("virtual_hosted_style_request", str(not endpoint)).lower() in ("true", "1")
    return {
        f"{_S3A}endpoint": endpoint,  # empty ones are Amazon's, whatever is said of another bucket
        f"{_S3A}endpoint.region": said.get("region", ""),
        f"{_S3A}connection.ssl.enabled": str(not endpoint.startswith("http://")).lower(),
        f"{_S3A}path.style.access": str(not by_host).lower(),
    }
