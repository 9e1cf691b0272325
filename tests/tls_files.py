"""Certificates of an authority that a test makes, and the file that names them to a server or client."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

__all__ = ["Authority"]


class Authority:
    """One authority; its files are in one folder."""

    def __init__(self, folder: Path, *names: str) -> None:
        """`names`: those of the servers, besides 127.0.0.1."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._authority = trustme.CA()
        self.trusted = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.trusted)
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.issue_server("127.0.0.1", *names)

    def issue_server(self, *names: str) -> None:
        """A new certificate for servers of these names, in place of the one before."""
        _write(self._authority.issue_cert(*names), self.certificate, self.key)

    def issue_client(self, name: str) -> dict[str, str]:
        """A certificate for a client of this name: the settings that name it."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        _write(self._authority.issue_cert(f"{name}@example.org", common_name=name), certificate, key)
        return {"tls.client.certPath": str(certificate), "tls.client.keyPath": str(key)}

    def file(self, name: str = "tls.properties", more: dict[str, str] | None = None) -> str:
        """The file of a server and of a client that trusts it; `more` settings on top."""
        settings = {
            "tls.server.certPath": str(self.certificate),
            "tls.server.keyPath": str(self.key),
            "tls.client.trustCertPath": str(self.trusted),
            **(more or {}),
        }
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def asking_clients(self, how: str = "require") -> dict[str, str]:
        """Settings of a server that checks its clients by this authority."""
        return {
            "tls.server.need.client.auth": how,
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(self.trusted),
        }


def _write(issued: trustme.LeafCert, certificate: Path, key: Path) -> None:
    """The key in the form that Java reads, too."""
    issued.cert_chain_pems[0].write_to_path(certificate)
    loaded = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.touch(mode=0o600)
    key.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
