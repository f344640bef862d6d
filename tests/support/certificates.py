"""Makes certificates for tests."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(directory: Path, name: str | None = None) -> Path:
    """Writes an authority, `ca.pem`, and its certificate for 127.0.0.1 or for a name, valid for a day: `server.pem` and
    `server-key.pem`. Returns the path of `ca.pem`."""
    now = datetime.datetime.now(datetime.UTC)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    whose: x509.GeneralName = loopback if name is None else x509.DNSName(name)

    def certificate(subject: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tarry tests")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([whose]), critical=False)
        )
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    ca = directory / "ca.pem"
    ca.write_bytes(certificate("Tarry tests", authority_key, authority=True))
    (directory / "server.pem").write_bytes(certificate("127.0.0.1", server_key, authority=False))
    (directory / "server-key.pem").write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return ca
