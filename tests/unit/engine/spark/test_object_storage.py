from __future__ import annotations

from waterclock.engine.spark.object_storage import storage_confs

S3A = "spark.hadoop.fs.s3a."


def test_a_server_of_one_s_own_is_asked_by_path_and_without_tls() -> None:
    confs = storage_confs(
        {
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "eu-west-1",
            "aws_endpoint": "http://127.0.0.1:9000",
            "aws_allow_http": "true",
        }
    )
    assert confs[f"{S3A}access.key"] == "key"
    assert confs[f"{S3A}secret.key"] == "secret"
    assert confs[f"{S3A}aws.credentials.provider"] == "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    assert confs[f"{S3A}endpoint"] == "http://127.0.0.1:9000"
    assert confs[f"{S3A}endpoint.region"] == "eu-west-1"
    assert confs[f"{S3A}connection.ssl.enabled"] == "false"
    assert confs[f"{S3A}path.style.access"] == "true"


def test_aws_itself_is_asked_by_host_with_the_keys_that_its_tools_find() -> None:
    confs = storage_confs({"aws_region": "eu-west-1"})
    assert confs[f"{S3A}path.style.access"] == "false"
    assert confs[f"{S3A}aws.credentials.provider"].endswith(".DefaultCredentialsProvider")
    assert f"{S3A}endpoint" not in confs
    assert f"{S3A}access.key" not in confs


def test_a_session_token_has_a_provider_of_its_own() -> None:
    confs = storage_confs({"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"})
    assert confs[f"{S3A}session.token"] == "t"
    assert confs[f"{S3A}aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")


def test_buckets_may_be_names_of_hosts_at_an_endpoint_too() -> None:
    confs = storage_confs({"aws_endpoint": "https://s3.example", "aws_virtual_hosted_style_request": "True"})
    assert confs[f"{S3A}path.style.access"] == "false"
    assert confs[f"{S3A}connection.ssl.enabled"] == "true"


def test_one_url_is_read_by_both_names_of_the_scheme() -> None:
    assert storage_confs({})["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
