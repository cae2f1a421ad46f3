from __future__ import annotations

from waterclock.engine.spark.object_storage import confs_of_stores, storage_confs
from waterclock.files.object_stores import Store

S3A = "spark.hadoop.fs.s3a."


def test_a_custom_endpoint_is_accessed_by_path_without_tls_and_with_the_given_keys() -> None:
    confs = storage_confs(
        {
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region": "eu-west-1",
            "endpoint": "http://127.0.0.1:9000",
        }
    )
    assert confs[f"{S3A}access.key"] == "key"
    assert confs[f"{S3A}secret.key"] == "secret"
    assert confs[f"{S3A}aws.credentials.provider"] == "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    assert confs[f"{S3A}endpoint"] == "http://127.0.0.1:9000"
    assert confs[f"{S3A}endpoint.region"] == "eu-west-1"
    assert confs[f"{S3A}connection.ssl.enabled"] == "false"
    assert confs[f"{S3A}path.style.access"] == "true"


def test_aws_is_accessed_by_host_with_the_default_credentials() -> None:
    confs = storage_confs({"region": "eu-west-1"})
    assert confs[f"{S3A}path.style.access"] == "false"
    assert confs[f"{S3A}aws.credentials.provider"].endswith(".DefaultCredentialsProvider")
    assert confs[f"{S3A}endpoint"] == ""
    assert f"{S3A}access.key" not in confs


def test_a_session_token_has_a_provider_of_its_own() -> None:
    confs = storage_confs({"access_key_id": "k", "secret_access_key": "s", "session_token": "t"})
    assert confs[f"{S3A}session.token"] == "t"
    assert confs[f"{S3A}aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")


def test_buckets_may_be_names_of_hosts_at_an_endpoint_too() -> None:
    confs = storage_confs({"endpoint": "https://s3.example", "virtual_hosted_style_request": "True"})
    assert confs[f"{S3A}path.style.access"] == "false"
    assert confs[f"{S3A}connection.ssl.enabled"] == "true"


def test_one_url_is_read_by_both_names_of_the_scheme() -> None:
    assert storage_confs({})["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"


def test_each_bucket_is_reached_by_its_own_options() -> None:
    lake = Store("s3://lake", {"endpoint": "http://127.0.0.1:9000", "access_key_id": "k", "secret_access_key": "s"})
    confs = confs_of_stores([lake, Store("s3://drop", {"region": "eu-west-1"}), Store("gs://other", {})])
    assert confs[f"{S3A}endpoint"] == "http://127.0.0.1:9000"
    of_drop = {key.partition("bucket.drop.")[2]: value for key, value in confs.items() if "bucket.drop." in key}
    assert of_drop == {
        "endpoint": "",
        "endpoint.region": "eu-west-1",
        "connection.ssl.enabled": "true",
        "path.style.access": "false",
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    }
    assert not any("other" in key for key in confs)
    assert confs_of_stores([Store("gs://other", {})]) == {}
