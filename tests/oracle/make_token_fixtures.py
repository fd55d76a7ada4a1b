#!/usr/bin/env python3
"""Writes the fixtures of the token tests: paseto_v4.tsv, paserk_k4.tsv and ed25519.tsv.

The values are facts from public test vectors:
  PASETO v4     github.com/paseto-standard/test-vectors  v4.json
  PASERK k4.*   github.com/paseto-standard/test-vectors  PASERK/
  Ed25519       Wycheproof eddsa_test.json (group 1), and the cases of "Taming the many EdDSAs"
                (github.com/novifinancial/ed25519-speccheck, cases.json)
Run it in this directory; it needs nothing but Python.
"""

PUBLIC = "1eb9dbbbbc047c03fd70604e0071f0987e16b28b757225c11f00415d0e20b1a2"
SECRET = "b4cbfb43df4ce210727d953e4a713307fa19bb7d9f85041438d9e11b942a3774" + PUBLIC
SIGNED = '{"data":"this is a signed message","exp":"2022-01-01T00:00:00+00:00"}'
KID = '{"kid":"zVhMiPBP9fRf2snEcT7gFTioeA9COcNy9DfgL1W60haN"}'
BODY = ("v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjAyMi0wMS0wMVQwMDowMDowMCsw"
        "MDowMCJ9")
FOOTER = ".eyJraWQiOiJ6VmhNaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9"

# name, payload, footer, assertion, token
PASETO_GOOD = [
    ("4-S-1", SIGNED, "", "", BODY
     + "bg_XBBzds8lTZShVlwwKSgeKpLT3yukTw6JUz3W4h_ExsQV-P0V54zemZDcAxFaSeef1QlXEFtkqxT1ciiQEDA"),
    ("4-S-2", SIGNED, KID, "", BODY
     + "v3Jt8mx_TdM2ceTGoqwrh4yDFn0XsHvvV_D0DtwQxVrJEBMl0F2caAdgnpKlt4p7xBnx1HcO-SPo8FPp214HDw"
     + FOOTER),
    ("4-S-3", SIGNED, KID, '{"test-vector":"4-S-3"}', BODY
     + "NPWciuD3d0o5eXJXG5pJy-DiVEoyPYWs1YSTwWHNJq6DZD3je5gf-0M4JR9ipdUSJbIovzmBECeaWmaqcaP0DQ"
     + FOOTER),
]

# Never to be taken for a v4.public token of that key: encrypted ones, and those that must fail.
PASETO_BAD = [
    ("4-E-1", "", "v4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAr68PS4AXe7If_ZgesdkUMvSwscFlAl1"
     "pk5HC0e8kApeaqMfGo_7OpBnwJOAbY9V7WU6abu74MmcUE8YWAiaArVI8XJ5hOb_4v9RmDkneN0S92dx0OW4pgy7omxgf3S8c3"
     "LlQg"),
    ("4-E-5", "", "v4.local.32VIErrEkmY4JVILovbmfPXKW9wT1OdQepjMTC_MOtjA4kiqw7_tcaOM5GNEcnTxl60WkwMsYXw6"
     "FSNb_UdJPXjpzm0KW9ojM5f4O2mRvE2IcweP-PRdoHjd5-RHCiExR1IK6t4x-RMNXtQNbz7FvFZ_G-lFpk5RG3EOrwDL6CgDqc"
     "erSQ" + FOOTER),
    ("4-F-1", '{"test-vector":"4-F-1"}', "v4.local.vngXfCISbnKgiP6VWGuOSlYrFYU300fy9ijW33rznDYgxHNPwWluA"
     "Y2Bgb0z54CUs6aYYkIJ-bOOOmJHPuX_34Agt_IPlNdGDpRdGNnBz2MpWJvB3cttheEc1uyCEYltj7wBQQYX.YXJiaXRyYXJ5LX"
     "N0cmluZy10aGF0LWlzbid0LWpzb24"),
    ("4-F-2", '{"test-vector":"4-F-2"}', "v4.public.eyJpbnZhbGlkIjoidGhpcyBzaG91bGQgbmV2ZXIgZGVjb2RlIn22"
     "Sp4gjCaUw0c7EH84ZSm_jN_Qr41MrgLNu5LIBCzUr1pn3Z-Wukg9h3ceplWigpoHaTLcwxj0NsI1vjTh67YB" + FOOTER),
    ("4-F-3", '{"test-vector":"4-F-3"}', "v3.local.23e_2PiqpQBPvRFKzB0zHhjmxK3sKo2grFZRRLM-U7L0a8uHxuF9R"
     "lVz3Ic6WmdUUWTxCaYycwWV1yM8gKbZB2JhygDMKvHQ7eBf8GtF0r3K0Q_gF1PXOxcOgztak1eD1dPe9rLVMSgR0nHJXeIGYVu"
     "VrVoLWQ.YXJiaXRyYXJ5LXN0cmluZy10aGF0LWlzbid0LWpzb24"),
    ("4-F-4", "", "v4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAr68PS4AXe7If_ZgesdkUMvSwscFlAl1"
     "pk5HC0e8kApeaqMfGo_7OpBnwJOAbY9V7WU6abu74MmcUE8YWAiaArVI8XJ5hOb_4v9RmDkneN0S92dx0OW4pgy7omxgf3S8c3"
     "LlQh"),
]

RAMP = "707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e"
# public key, k4.public, k4.pid
PASERK = [
    ("00" * 32, "k4.public.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     "k4.pid.S_XQmeEwHbbvRmiyfXfHYpLGjXGzjTRSDoT1YtTakWFE"),
    (RAMP + "8f", "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
     "k4.pid.9ShR3xc8-qVJ_di0tc9nx0IDIqbatdeM2mqLFBJsKRHs"),
    (RAMP + "90", "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjpA",
     "k4.pid.-nyvbaTz8U6TQz7OZWW-iB3va31iAxIpUgzUcVQVmW9A"),
]

WYCHEPROOF = "7d4d0e7f6153a69b6242b522abbee685fda4420f8834b108c3bdae369ef549fa"
GOOD = [  # message, signature
    ("", "d4fbdb52bfa726b44d1786a8c0d171c3e62ca83c9e5bbe63de0bb2483f8fd6cc1429ab72cafc41ab56af02ff8fcc43b99bf"
     "e4c7ae940f60f38ebaa9d311c4007"),
    ("78", "d80737358ede548acb173ef7e0399f83392fe8125b2ce877de7975d8b726ef5b1e76632280ee38afad12125ea44b961bf"
     "92f1178c9fa819d020869975bcbe109"),
    ("54657374", "7c38e026f29e14aabd059a0f2db8b0cd783040609a8be684db12f82a27774ab07a9155711ecfaf7f99f277bad0"
     "c6ae7e39d4eef676573336a5c51eb6f946b30d"),
    ("48656c6c6f", "1c1ad976cbaae3b31dee07971cf92c928ce2091a85f5899f5e11ecec90fc9f8e93df18c5037ec9b29c07195a"
     "d284e63d548cd0a6fe358cc775bd6c1608d2c905"),
    ("313233343030", "657c1492402ab5ce03e2c3a7f0384d051b9cf3570f1207fc78c1bcc98c281c2bf0cf5b3a289976458a1be6"
     "277a5055545253b45b07dcc1abd96c8b989c00f301"),
]
CHANGED_R = [
    "647c1492402ab5ce03e2c3a7f0384d051b9cf3570f1207fc78c1bcc98c281c2b1d125e5538f38afbcc1c84e489521083041d24bc"
    "6240767029da063271a1ff0c",
    "677c1492402ab5ce03e2c3a7f0384d051b9cf3570f1207fc78c1bcc98c281c2bc108ca4b87a49c9ed2cf383aecad8f54a962b289"
    "9da891e12004d7993a627e01",
    "617c1492402ab5ce03e2c3a7f0384d051b9cf3570f1207fc78c1bcc98c281c2b9ce23fc6213ed5b87912e9bbf92f5e2c780eae26"
    "d15c50a112d1e97d2ea33c06",
    "e57c1492402ab5ce03e2c3a7f0384d051b9cf3570f1207fc78c1bcc98c281c2bbb3eb51cd98dddb235a5f46f2bded6af184a58d0"
    "9cce928bda43f41d69118a03",
]
ORDER = 2**252 + 27742317777372353535851937790883648493
FIELD = 2**255 - 19

# The cases of small, mixed and non-canonical points: message, key, signature.
SPECCHECK = [
    ("8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
     "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
     "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a" + "00" * 32),
    ("9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
     "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
     "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43"
     "a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04"),
    ("aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
     "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
     "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"
     "8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e"),
    ("9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
     "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
     "9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f"
     "87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009"),
    ("e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
     "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
     "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed512"
     "5ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09"),
    ("e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
     "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
     "21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7"
     "e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405"),
    ("85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
     "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
     "e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e"
     "547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514"),
    ("85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
     "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
     "8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa1942"
     "7e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22"),
    ("fdaebc429f4a735932a160da1301080c13280eea8bc280d1b392c6b9e6ba3a5a",
     "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
     "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
     "454d370c8d9fc323a41450f8d513eafeb5b0697390c1e505a0d4ddc71f566607"),
    ("84b698d39be126ff55fe45079e6c8bf64a0d7db6994560b4e96b7021eb39c1a1",
     "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
     "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
     "084d5b99c2a9463d9c8bd5026916996984eeec87ddf1d3be329006ace1b37b09"),
]


def little(number):
    return number.to_bytes(32, "little").hex()


def ed25519_rows():
    for message, signature in GOOD:
        yield "good", WYCHEPROOF, message, signature
    for signature in CHANGED_R:
        yield "bad", WYCHEPROOF, "313233343030", signature
    # special values of R and of S
    for r in (0, 1, ORDER, FIELD):
        for s in (0, 1, ORDER - 1, ORDER, FIELD):
            yield "bad", WYCHEPROOF, "3f", little(r) + little(s)
    # the same signature with S + k × order: malleability, were S's range not checked
    for message, signature in GOOD:
        s = int.from_bytes(bytes.fromhex(signature[64:]), "little")
        for k in (1, 2, 4, 8, 15):
            if s + k * ORDER < 2**256:
                yield "bad", WYCHEPROOF, message, signature[:64] + little(s + k * ORDER)
    for message, key, signature in SPECCHECK:
        yield "bad", key, message, signature


def write(path, head, rows):
    with open(path, "w", encoding="ascii", newline="\n") as out:
        out.write("# " + head + "; see make_token_fixtures.py\n")
        for row in rows:
            out.write("\t".join(field or "-" for field in row) + "\n")


write("paseto_v4.tsv", "good|bad name assertion payload footer token; good ones by " + SECRET,
      [("good", n, a, p, f, t) for n, p, f, a, t in PASETO_GOOD]
      + [("bad", n, a, "", "", t) for n, a, t in PASETO_BAD])
write("paserk_k4.tsv", "public key, k4.public, k4.pid", PASERK)
write("ed25519.tsv", "good|bad key message signature", ed25519_rows())
