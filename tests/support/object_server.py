"""An S3 server on this machine, moto's, with a bucket and a key: a process of its own on loopback."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import attrs

from support.servers import free_port
from support.waiting import wait_until

START_SECONDS = 60.0
BUCKET = "history"
REGION = "us-east-1"
_ALL = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
_SIGNED = f"AWS4-HMAC-SHA256 Credential=any/20260101/{REGION}/iam/aws4_request, SignedHeaders=host, Signature=any"


@attrs.define
class ObjectServer:
    """A server that is up, and checks the keys of who asks."""

    url: str
    environment: dict[str, str] = attrs.field(factory=dict[str, str])
    """What a job is told of it."""

    @property
    def lake(self) -> str:
        """Where a lake may be."""
        return f"s3://{BUCKET}/lake"

    def files(self) -> Any:
        """The server as pyarrow's file system, with the right to make buckets and to remove them."""
        fs: Any = import_module("pyarrow.fs")
        return fs.S3FileSystem(
            access_key=self.environment["AWS_ACCESS_KEY_ID"],
            secret_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            region=REGION,
            endpoint_override=self.url,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def paths(self) -> list[str]:
        """Everything in the bucket."""
        fs: Any = import_module("pyarrow.fs")
        found = self.files().get_file_info(fs.FileSelector(BUCKET, recursive=True))
        return sorted(one.path for one in found if one.type == fs.FileType.File)

    def take_bucket(self) -> dict[str, bytes]:
        """The bucket is gone; what was in it, by path."""
        files = self.files()
        content: dict[str, bytes] = {}
        for path in self.paths():
            with files.open_input_stream(path) as stream:
                content[path] = stream.read()
        files.delete_dir(BUCKET)
        return content

    def give_bucket(self, content: dict[str, bytes]) -> None:
        """It is there again, with this in it."""
        files = self.files()
        files.create_dir(BUCKET)
        for path, data in content.items():
            with files.open_output_stream(path) as stream:
                stream.write(data)

    def ask(self, path: str, data: bytes | None = None, **headers: str) -> str:
        """What it answers who has no key yet."""
        with urlopen(Request(self.url + path, data, headers), timeout=30) as answer:
            return str(answer.read().decode())

    def _manage(self, action: str, **what: str) -> str:
        form = {"Action": action, "Version": "2010-05-08", "UserName": "archiver", **what}
        return self.ask("/", urlencode(form).encode(), Authorization=_SIGNED)

    def make_key(self) -> None:
        """A user who may do everything with objects, and from now on nobody else may do anything."""
        self._manage("CreateUser")
        made = self._manage("CreateAccessKey")
        self._manage("PutUserPolicy", PolicyName="all", PolicyDocument=_ALL)
        self.environment |= {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": REGION}
        for name, tag in (("AWS_ACCESS_KEY_ID", "AccessKeyId"), ("AWS_SECRET_ACCESS_KEY", "SecretAccessKey")):
            found = re.search(f"<{tag}>(.*?)</{tag}>", made)
            assert found is not None, made
            self.environment[name] = found[1]
        self.ask("/moto-api/reset-auth", b"0", **{"Content-Type": "text/plain"})


@contextmanager
def object_server(home: Path) -> Iterator[ObjectServer]:
    """With an empty bucket. `home` has its log."""
    port = free_port()
    command = [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (home / "object-server.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home)
    try:
        server = ObjectServer(f"http://127.0.0.1:{port}")
        _wait(process, server)
        server.make_key()
        server.give_bucket({})
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: "subprocess.Popen[bytes]", server: ObjectServer) -> None:
    def answers() -> bool:
        assert process.poll() is None, "the server has ended"
        try:
            server.ask("/moto-api/data.json")
        except HTTPError:
            raise
        except OSError:
            return False
        return True

    wait_until(answers, START_SECONDS)
