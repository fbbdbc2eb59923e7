"""Certificates for tests: an authority, and whom it has signed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    def write_pem(self, path: Path, password: str | None = None) -> None:
        """Key and certificate in one file."""
        path.write_text(self.key_pem(password) + self.certificate_pem())

    def write_pkcs12(self, path: Path, password: str) -> None:
        how = BestAvailableEncryption(password.encode())
        name = self.name.encode()
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(name, self.key, self.certificate, None, how)
        )


def identity(
    name: str,
    signed_by: Identity | None = None,
    *,
    host: str = "127.0.0.1",
    days: tuple[int, int] = (-1, 1),
) -> Identity:
    """A new identity for the loopback, or another host, valid from one day to another, as seen from
    now; an authority where nobody signs it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = signed_by.certificate.subject if signed_by else subject
    now = datetime.now(UTC)
    addresses = [
        *([x509.DNSName("localhost")] if host == "127.0.0.1" else []),
        x509.IPAddress(ipaddress.ip_address(host)),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(signed_by is None, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .sign(signed_by.key if signed_by else key, hashes.SHA256())
    )
    return Identity(name, key, certificate)
