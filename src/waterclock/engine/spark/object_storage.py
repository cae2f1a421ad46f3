"""Converts the options of buckets into the configuration of Spark and its S3A file system.

Delta's own log store for S3 checks that a version is free and writes it then. If two processes commit at once, one
silently replaces the other's commit, and no setting of Hadoop 3.5 changes that. `ConditionalLogStore` uses conditional
puts, which write a commit only if its version is free, as delta-rs does (docs/decisions/spark-commits-to-s3.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.files.object_stores import Store
from waterclock.storage.spark_settings import LOG_STORE, LOG_STORE_OF_S3

_S3A = "spark.hadoop.fs.s3a."
_CREDENTIALS = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
# looks in the same order as object_store: environment, web identity, profile, container role, machine role
_DEFAULT_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_S3A_PROVIDER = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"

# the same for every store
_SETTINGS = {
    LOG_STORE_OF_S3: LOG_STORE,
    "spark.delta.logStore.s3a.impl": LOG_STORE,
    # a table has one URL, and delta-rs supports only s3://
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    # A job's files are multipart uploads that its commit completes: none is copied, as a rename in S3 would do.
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    f"{_S3A}committer.name": "magic",
    f"{_S3A}committer.magic.track.commits.in.memory.enabled": "true",
    # paths are not checked before files and folders are created: their names are new
    f"{_S3A}performance.flags": "create,delete,mkdir",
    # buffers in memory: on disk, S3A would need local files with checksums, which our sessions disable
    f"{_S3A}fast.upload.buffer": "bytebuffer",
    f"{_S3A}multipart.size": "16M",  # the buffer for each file being written
    # the defaults retry for a quarter of an hour; these give up on an unreachable store within a minute
    f"{_S3A}attempts.maximum": "3",
    f"{_S3A}retry.limit": "3",
    f"{_S3A}connection.establish.timeout": "5s",
    f"{_S3A}connection.timeout": "60s",
}


def confs_of_stores(stores: Sequence[Store]) -> dict[str, str]:
    """Return Spark's configuration for object stores: global settings for the first, by bucket for the others."""
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
    """Return the Spark configuration for s3:// and s3a:// that matches the `options` of object_store.

    `options` are those of `object_stores.OPTIONS`. Without keys, credentials are looked up as AWS's tools do. A server
    with its own endpoint is addressed by path, as most servers require.
    """
    return _SETTINGS | _credential_confs(options) | _endpoint_confs(options)


def _credential_confs(options: Mapping[str, str]) -> dict[str, str]:
    given = {f"{_S3A}{key}": options[name] for name, key in _CREDENTIALS.items() if options.get(name)}
    if not given:
        provider = _DEFAULT_CHAIN
    else:
        provider = _S3A_PROVIDER.format("Temporary" if options.get("session_token") else "Simple")
    return given | {f"{_S3A}aws.credentials.provider": provider}


def _endpoint_confs(options: Mapping[str, str]) -> dict[str, str]:
    endpoint = options.get("endpoint", "")
    by_host = options.get("virtual_hosted_style_request", str(not endpoint)).lower() in ("true", "1")
    return {
        f"{_S3A}endpoint": endpoint,  # empty for Amazon's, even if another bucket has an endpoint
        f"{_S3A}endpoint.region": options.get("region", ""),
        f"{_S3A}connection.ssl.enabled": str(not endpoint.startswith("http://")).lower(),
        f"{_S3A}path.style.access": str(not by_host).lower(),
    }
