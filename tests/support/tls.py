"""Certificates for tests, made with the openssl program on the fly."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A self-signed certificate for `host`: the server's context, and a client's that trusts it and nothing else."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the openssl program to make a certificate")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={host}"]
    command += ["-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))
