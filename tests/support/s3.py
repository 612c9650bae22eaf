"""A real server that speaks S3, of this test alone: on a port of loopback, with one bucket and one user who may use it.

It verifies signatures and policies, as AWS does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import boto3

BUCKET = "team"
REGION = "us-east-1"
_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
_COMMAND = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")


class S3Server:
    """`url`: where it listens; `key`, `secret`: the credentials of its user."""

    def __init__(self, url: str) -> None:
        self.url = url
        iam = self._connect("iam", "any", "any")
        iam.create_user(UserName="worker")
        iam.put_user_policy(UserName="worker", PolicyName="all", PolicyDocument=json.dumps(_POLICY))
        access_key = iam.create_access_key(UserName="worker")["AccessKey"]
        self.key, self.secret = access_key["AccessKeyId"], access_key["SecretAccessKey"]
        self._s3 = self._connect("s3", self.key, self.secret)
        self.create_bucket()
        asked = Request(f"{url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})
        urlopen(asked).close()  # from now on it looks at who asks

    def _connect(self, service: str, key: str, secret: str) -> Any:
        credentials = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **credentials)

    def address(self, place: str = f"{BUCKET}/agents") -> str:
        return f"s3://{place}?endpoint={quote(self.url)}&region={REGION}"

    def list_keys(self) -> list[str]:
        listing = self._s3.list_objects_v2(Bucket=BUCKET)
        return [entry["Key"] for entry in listing.get("Contents", ())]

    def create_bucket(self) -> None:
        self._s3.create_bucket(Bucket=BUCKET)

    def delete_bucket(self) -> None:
        """Delete the bucket, which must be empty."""
        self._s3.delete_bucket(Bucket=BUCKET)


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1000"}  # until the user is made
    process = subprocess.Popen(_COMMAND, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(output_line for output_line in process.stderr if "Running on" in output_line)
        yield S3Server(line.split()[-1])
    finally:
        process.kill()
        process.communicate()
