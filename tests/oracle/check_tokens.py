#!/usr/bin/env python3
"""Cross-checks tokens with another implementation of PASETO and PASERK, in both directions.

    python3 -m venv V && V/bin/pip install pyseto
    V/bin/python tests/oracle/check_tokens.py build/dev/tests/bin/token-tool

token-tool is a small program of the tests: it signs claims (or a receipt) with a key that is given
as k4.secret, verifies a token with a keyring file, wraps a key that it makes, and unwraps keys. Not
run by ctest.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import pyseto
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pyseto import Key

TOOL = sys.argv[1]
AUTHORIZATION = b"ringfence/authorization/v1"
RECEIPT = b"ringfence/receipt/v1"
# The claims are of one day in 2026; a leeway of centuries makes any day good.
THEIRS = pyseto.Paseto.new(leeway=10**10)


def tool(*arguments, ok=True):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
    assert (done.returncode == 0) == ok, (arguments, done.stdout, done.stderr)
    return done.stdout.strip()


def keys(seed):
    raw = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(
        Encoding.Raw, PublicFormat.Raw)
    return (Key.from_asymmetric_key_params(version=4, d=seed),
            Key.from_asymmetric_key_params(version=4, x=raw))


def main():
    claims = pathlib.Path(__file__).parent.parent / "fuzz/corpus/claims/whole"
    payload = claims.read_text().strip()
    with tempfile.TemporaryDirectory() as directory:
        keyring = pathlib.Path(directory) / "keyring.json"
        for n in range(20):
            secret, public = keys(bytes([n]) * 32)
            kid, paserk = public.to_paserk_id(), secret.to_paserk()
            keyring.write_text(json.dumps(
                {"keys": [{"kid": kid, "key": public.to_paserk()}], "version": 1}))
            footer = json.dumps({"kid": kid}, separators=(",", ":")).encode()
            # ours in theirs: the same bytes, since Ed25519 is deterministic
            ours = tool("sign", paserk, payload)
            theirs = pyseto.encode(secret, payload.encode(), footer, AUTHORIZATION).decode()
            assert ours == theirs
            decoded = THEIRS.decode(public, ours, AUTHORIZATION, deserializer=json)
            assert decoded.payload == json.loads(payload) and decoded.footer == {"kid": kid}
            for wrong in (b"", RECEIPT):
                try:
                    pyseto.decode(public, ours, wrong)
                    raise AssertionError("taken with another assertion")
                except pyseto.VerifyError:
                    pass
            # theirs in ours: another order of keys, spaces, offsets in times
            loose = json.dumps(json.loads(payload), indent=1, sort_keys=False).replace(
                "14:00:00Z", "16:00:00+02:00")
            token = pyseto.encode(secret, loose.encode(), footer, AUTHORIZATION).decode()
            assert tool("verify", str(keyring), token) == "ok"
            token = pyseto.encode(secret, loose.encode(), footer, RECEIPT).decode()
            assert tool("verify", str(keyring), token, ok=False) == "bad-signature"
            token = pyseto.encode(secret, loose.encode(), b"", AUTHORIZATION).decode()
            assert tool("verify", str(keyring), token, ok=False) == "malformed"
            # keys at rest, both ways
            if n < 3:
                clear, wrapped = tool("wrap", "correct horse").split()
                assert Key.from_paserk(wrapped, password="correct horse").to_paserk() == clear
                wrapped = secret.to_paserk(password="correct horse", memory_cost=15 * 1024,
                                           time_cost=2, parallelism=1)
                assert tool("unwrap", wrapped, "correct horse") == paserk
                tool("unwrap", wrapped, "correct horse ", ok=False)
    print("tokens and keys agree, both ways")


main()
