"""Signatures, held against the example of the standard and its own library; secrets that are no good."""

from base64 import b64encode
from datetime import UTC, datetime

import pytest
import standardwebhooks

from tarry.service.push.signing import read_secret, signatures

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()


def test_as_in_the_standards_example() -> None:
    """What its libraries all try."""
    key = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signatures([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_its_own_library_finds_one_of_several() -> None:
    now = int(datetime.now(UTC).timestamp())
    other = "whsec_" + b64encode(b"x" * 24).decode()
    signed = signatures([read_secret(other), read_secret(SECRET)], "7", now, '{"grüß": "Gott"}'.encode())
    headers = {"webhook-id": "7", "webhook-timestamp": str(now), "webhook-signature": signed}
    for secret in (other, SECRET):
        assert standardwebhooks.Webhook(secret).verify('{"grüß": "Gott"}'.encode(), headers) == {"grüß": "Gott"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(b"{}", headers)


@pytest.mark.parametrize(
    ("secret", "wrong"),
    [
        ("", "whsec_"),
        ("hunter2", "whsec_"),
        ("whsec_###", "base64"),
        ("whsec_" + b64encode(b"x" * 23).decode(), "23 bytes"),
        ("whsec_" + b64encode(b"x" * 65).decode(), "65 bytes"),
        ("whsec_" + b64encode(b"x" * 32).decode() + "\n", "base64"),
    ],
)
def test_no_good(secret: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong) as caught:
        read_secret(secret)
    told = secret.removeprefix("whsec_").strip()
    assert not told or told not in str(caught.value), "it is a secret all the same"
