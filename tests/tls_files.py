"""Certificates of an authority that a test makes, and the file that names them to a server or client."""

from __future__ import annotations

from pathlib import Path

import trustme

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
        issued = self._authority.issue_cert(*names)
        self.key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(self.key)
        issued.cert_chain_pems[0].write_to_path(self.certificate)

    def issue_client(self, name: str) -> dict[str, str]:
        """A certificate for a client of this name: the settings that name it."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued = self._authority.issue_cert(f"{name}@example.org", common_name=name)
        key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(certificate)
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
