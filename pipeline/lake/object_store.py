"""How an object store is asked for a lake: where it is, with which key, and what its errors mean.

Files go through pyarrow and the table's log through deltalake, and both go by the same variables of the environment,
those of AWS. The workers of a cluster do not have the driver's environment: what it says goes along with each task, as
a part of its code, which is in no log and in no plan that Spark shows.
"""

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import frozen

from ..arrow import fs

_ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SOME_REGION = "us-east-1"
"""Of servers that know none."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_NO_BUCKET = re.compile(r"NoSuchBucket|NO_SUCH_BUCKET")
_NO_KEY = re.compile(r"169\.254\.169\.254|NO_CREDENTIALS|[Cc]redentials? (?:not found|were not found|provider)")
_REFUSED = re.compile(
    r"InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH|AccessDenied|ACCESS_DENIED"
    r"|ExpiredToken|INVALID_CLIENT_TOKEN_ID|lacked the necessary privileges|\b40[13] (?:Forbidden|Unauthorized)"
)
_AWAY = re.compile(r"NETWORK_CONNECTION|error sending request|[Cc]ould not connect|dns error|REQUEST_TIMEOUT")


def in_object_store(place: str) -> bool:
    """Whether files there are read and written through pyarrow alone, and Spark needs no jar for it."""
    return place.startswith("s3://")


@frozen(repr=False)
class Access:
    """What the environment of a process says of object stores. It has no text of its own: it holds a key."""

    endpoint: str | None = None
    """The URL of the server; None is AWS."""
    region: str | None = None
    key: str | None = None
    """With `secret`; None: each process finds one by itself, in the files or by the role of its machine."""
    secret: str | None = None
    token: str | None = None
    bucket_in_host: bool = False
    """The bucket is in the name of the host, and not in the path."""

    @classmethod
    def here(cls) -> "Access":
        """What this process has."""
        return cls(
            _first(*_ENDPOINT),
            _first(*_REGION),
            _first("AWS_ACCESS_KEY_ID"),
            _first("AWS_SECRET_ACCESS_KEY"),
            _first("AWS_SESSION_TOKEN"),
            (_first("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") or "").lower() == "true",
        )

    def filesystem(self, place: str) -> tuple[Any, str]:
        """Where the files of a lake are, and what `place` is called there."""
        if "://" not in place:
            return fs.LocalFileSystem(), place
        if not in_object_store(place):
            opened: tuple[Any, str] = fs.FileSystem.from_uri(place)
            return opened
        options: dict[str, Any] = {"region": self.region or self._region_of(place)}
        if self.key is not None and self.secret is not None:
            options |= {"access_key": self.key, "secret_key": self.secret, "session_token": self.token}
        if self.endpoint is not None:
            options["endpoint_override"] = self.endpoint
        if self.bucket_in_host:
            options["force_virtual_addressing"] = True
        return fs.S3FileSystem(**options), _path(place)

    def _region_of(self, place: str) -> str:
        found: str = _SOME_REGION if self.endpoint is not None else fs.resolve_s3_region(_bucket(place))
        return found

    def options(self, place: str) -> dict[str, str]:
        """For deltalake, which finds the key by itself. A server is asked without TLS when its URL says so."""
        if not in_object_store(place) or self.endpoint is None:
            return {}
        options = {"aws_endpoint_url": self.endpoint, "aws_region": self.region or _SOME_REGION}
        return options | ({"aws_allow_http": "true"} if self.endpoint.startswith("http://") else {})

    def lost_bucket(self, place: str) -> str | None:
        """A sentence when the bucket is gone, in which a file was looked for in vain; else None."""
        if not in_object_store(place):
            return None
        files, _ = self.filesystem(place)
        try:
            gone = files.get_file_info(_bucket(place)).type == fs.FileType.NotFound
        except OSError as error:
            return self.meant(error, place)
        return self._no_bucket(place) if gone else None

    def known(self, error: BaseException, place: str) -> str | None:
        """What an error at this place means, in one line; None where it is none of the object store's."""
        text = str(error)
        if not in_object_store(place):
            return None
        if _NO_BUCKET.search(text):
            return self._no_bucket(place)
        if _NO_KEY.search(text):
            return "there is no key for the object store. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        if _REFUSED.search(text):
            return f"{self._server} refuses it. Correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what they allow"
        if _AWAY.search(text):
            return f"{self._server} does not answer. Correct AWS_ENDPOINT_URL, or run it again later"
        return quoted(error) if "AWS Error" in text else None

    @property
    def _server(self) -> str:
        return "the object store" if self.endpoint is None else f"the object store at {self.endpoint}"

    def _no_bucket(self, place: str) -> str:
        return f"{self._server} has no bucket {_bucket(place)}. Make it or put it back, or correct --lake"

    def meant(self, error: BaseException, place: str) -> str:
        """The same, or what the error says, in one line."""
        return self.known(error, place) or quoted(error)


def quoted(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(_COLOUR.sub("", str(error)).split())[:300]


def _first(*names: str) -> str | None:
    """The first of these variables that is set, and not empty."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def _bucket(place: str) -> str:
    return urlsplit(place).netloc


def _path(place: str) -> str:
    parts = urlsplit(place)
    return unquote(f"{parts.netloc}{parts.path}")
