#!/usr/bin/python3
"""Makes certificates for tests.

usage: certificates.py FOLDER

FOLDER gets ca.pem, an authority's, and pairs NAME.pem and NAME.key that it
signed: good, for localhost and 127.0.0.1; other, for another host; expired;
early, which is good from tomorrow on; self, which nobody signed.
"""
import datetime
import ipaddress
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
HERE = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


def save(name, certificate, key):
    with open("%s/%s.pem" % (sys.argv[1], name), "wb") as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    with open("%s/%s.key" % (sys.argv[1], name), "wb") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM,
                                     serialization.PrivateFormat.PKCS8,
                                     serialization.NoEncryption()))


def made(name, names, begins, ends, issuer=None, authority=False):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer, signer_name = (issuer[1], issuer[0].subject) if issuer else (key, subject)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(signer_name) \
        .public_key(key.public_key()).serial_number(x509.random_serial_number()) \
        .not_valid_before(begins).not_valid_after(ends) \
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    save(name, certificate, key)
    return certificate, key


ca = made("ca", [], NOW - 90 * DAY, NOW + 90 * DAY, authority=True)
made("good", HERE, NOW - 2 * DAY, NOW + 30 * DAY, ca)
made("other", [x509.DNSName("models.example.org")], NOW - 2 * DAY, NOW + 30 * DAY, ca)
made("expired", HERE, NOW - 60 * DAY, NOW - 30 * DAY, ca)
made("early", HERE, NOW + DAY, NOW + 30 * DAY, ca)
made("self", HERE, NOW - 2 * DAY, NOW + 30 * DAY)
