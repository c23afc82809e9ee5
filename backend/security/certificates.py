"""Certificates: the host's own authority, and what it signs for hosts, guests and the processes of sessions.

Owns all use of the `cryptography` package. Keys are on the curve P-256, signatures ECDSA with SHA-256.

Source: RFC 5280.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from farlane.backend.host.entrance import Entrance
from farlane.backend.security.folder import Folder, SecurityError, write

AUTHORITY_DAYS = 3650
HOST_DAYS = 397
SESSION_DAYS = 1  # a session's guest makes its connection within minutes
_SKEW = datetime.timedelta(minutes=5)  # of clocks
_Usage = x509.ObjectIdentifier


def create_authority(folder: Folder) -> None:
    """Raises SecurityError."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Farlane authority {secrets.token_hex(8)}")  # a guest may trust several
    certificate = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    write(folder.authority_key, _pem_of_key(key))
    write(folder.authority, certificate.public_bytes(Encoding.PEM), 0o644)


def create_host(folder: Folder, names: Sequence[str], days: int) -> None:
    """The host's certificate for these names and addresses. Raises SecurityError."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(folder, key, names[0], days, ExtendedKeyUsageOID.SERVER_AUTH, names)
    write(folder.key, _pem_of_key(key))
    write(folder.certificate, certificate.public_bytes(Encoding.PEM), 0o644)


def names_of(path: Path) -> list[str]:
    """The names and addresses that a certificate is for. Raises SecurityError."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SecurityError(f"cannot read the certificate {path}: {error}") from error
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in found]


def create_guest(folder: Folder, name: str, days: int) -> tuple[bytes, bytes, bytes]:
    """A client certificate: its PEM, its key's PEM, and its DER. Raises SecurityError."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(folder, key, name, days, ExtendedKeyUsageOID.CLIENT_AUTH)
    return certificate.public_bytes(Encoding.PEM), _pem_of_key(key), certificate.public_bytes(Encoding.DER)


def create_entrance() -> Entrance:
    """For the process of one session. It has no signer: the guest knows it from the host, byte for byte."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Farlane session")
    certificate = (
        _builder(name, name, key, SESSION_DAYS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("farlane-session")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Entrance(
        certificate.public_bytes(Encoding.PEM),
        _pem_of_key(key),
        certificate.public_bytes(Encoding.DER),
        secrets.token_urlsafe(32),
    )


def _signed(
    folder: Folder,
    key: ec.EllipticCurvePrivateKey,
    name: str,
    days: int,
    usage: _Usage,
    alternatives: Sequence[str] = (),
) -> x509.Certificate:
    try:
        authority_key = load_pem_private_key(folder.authority_key.read_bytes(), None)
        authority = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    except (OSError, ValueError) as error:
        raise SecurityError(f"cannot sign with the authority in {folder.path}: {error}") from error
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise SecurityError(f"the key of the authority in {folder.path} is none of this command's")
    builder = (
        _builder(_name(name), authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if alternatives:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(each) for each in alternatives]), critical=False
        )
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError as error:
        raise SecurityError(f"{text!r} is no name that a certificate can have") from error


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
