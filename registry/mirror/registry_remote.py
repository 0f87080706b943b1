"""What registry-mirror asks of a registry that speaks Hugging Face's API.

Nothing that a remote says is believed: each answer has a bound for its size
and its time, each file is read up to the size that was announced, each name
has to be what it claims to be, and each address that a connection goes to is
judged after its name was resolved.
"""
import hashlib
import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse

ANSWER_BYTES = 16 << 20
ANSWER_SECONDS = 120
HEAD_SECONDS = 60
IDLE_SECONDS = 30
MIN_RATE = 64 << 10             # bytes a second, after the first minute
BLOCK = 1 << 18
FILES = 100000                  # what a commit takes
REGULAR = 10 << 20              # the largest file without a SHA-256
REDIRECTS = 5

# As gpucreditd judges the addresses of webhooks.
RESERVED = [ipaddress.ip_network(text) for text in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32",
    "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
    "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
INTERNET = ipaddress.ip_network("2000::/3")
NAT64 = ipaddress.ip_network("64:ff9b::/96")


class RemoteError(Exception):
    """The remote did not give what was asked for."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def led_to(address):
    """The address that a socket's address leads to."""
    address = ipaddress.ip_address(address.split("%")[0])
    if address.version == 6:
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in NAT64:
            return ipaddress.IPv4Address(int(address) & 0xffffffff)
    return address


def is_own(address):
    """Whether this machine has the address: only such a one can be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
        return True
    except OSError:
        return False


def is_public(address):
    if address.version == 6 and address not in INTERNET:
        return False
    return not any(address.version == network.version and address in network
                   for network in RESERVED) and not is_own(address)


class Judge:
    """Decides to which addresses a connection may go."""

    def __init__(self, networks=(), everywhere=False):
        self.networks = [ipaddress.ip_network(text) for text in networks]
        self.everywhere = everywhere

    def connect(self, host, port, tls):
        error = RemoteError("%s has no address that may be connected to" % host[:200])
        for family, kind, proto, _, where in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM):
            address = led_to(where[0])
            named = self.everywhere or any(
                address.version == network.version and address in network
                for network in self.networks)
            # Without TLS, only networks that the operator named are asked.
            if not named and not (tls and is_public(address)):
                continue
            sock = socket.socket(family, kind, proto)
            try:
                sock.settimeout(IDLE_SECONDS)
                sock.connect(where)
                return sock
            except OSError as failed:
                sock.close()
                error = failed
        raise error


def connection(judge, scheme, host, port, context):
    """A connection whose socket goes where the judge allows, whatever DNS says."""
    tls = scheme == "https"
    made = http.client.HTTPConnection(host, port or (443 if tls else 80))
    made.sock = judge.connect(host, made.port, tls)
    if tls:
        plain = made.sock
        try:
            made.sock = context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise RemoteError(refused_certificate(host, error)) from None
    return made


def refused_certificate(host, error):
    """Why no TLS was spoken with a host. A certificate is refused by its name."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the certificate of %s is not trusted: %s" % (host[:200], error.verify_message)
    return "%s does not speak TLS as it has to: %s" % (host[:200], error)


class Answer:
    """An answer whose body is read in blocks; it closes its connection."""

    def __init__(self, made, response):
        self.made, self.response = made, response
        self.status, self.headers = response.status, response.headers

    def close(self):
        self.made.close()

    def blocks(self, length, began=None):
        """Exactly so many bytes, which come fast enough; then the body ends."""
        began, came = began or time.monotonic(), 0
        while came < length:
            try:
                block = self.response.read1(min(BLOCK, length - came))
            except OSError as error:
                raise RemoteError("the remote broke off: %s" % error) from None
            if not block:
                raise RemoteError("%d of %d bytes came" % (came, length))
            came += len(block)
            took = time.monotonic() - began
            if took > 60 and came < MIN_RATE * (took - 60):
                raise RemoteError("the remote sends too slowly")
            yield block
        if self.response.read1(1):
            raise RemoteError("more than the announced bytes came")


class Remote:
    def __init__(self, url, token=None, judge=None, ca=None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query \
                or parts.fragment or parts.username is not None:
            raise ValueError("the address of a remote is http(s)://HOST[:PORT][/PATH]")
        self.base = url.rstrip("/")
        self.origin = (parts.scheme, parts.hostname, parts.port)
        self.token, self.judge = token, judge or Judge()
        self.context = ssl.create_default_context(cafile=ca)
        self.has_provenance = True
        self.go_on = lambda: None       # is called before each request

    def request(self, url, headers=None, anywhere=False):
        """An answer of status 200 or 206, after redirects."""
        for _ in range(REDIRECTS + 1):
            try:
                parts = urllib.parse.urlsplit(url)
                origin = (parts.scheme, parts.hostname, parts.port)
            except ValueError:
                raise RemoteError("the remote names a malformed address") from None
            if parts.scheme not in ("http", "https") or not parts.hostname \
                    or parts.username is not None:
                raise RemoteError("the remote names an address that is not HTTP's")
            if origin != self.origin and not anywhere:
                raise RemoteError("the remote names an address elsewhere, at %s" % parts.hostname)
            made = connection(self.judge, parts.scheme, parts.hostname, parts.port, self.context)
            # Headers that trickle in keep no worker: the connection is cut.
            timer = threading.Timer(HEAD_SECONDS, cut, [made.sock])
            timer.daemon = True
            timer.start()
            try:
                sent = {"Accept-Encoding": "identity", "User-Agent": "registry-mirror",
                        "Host": parts.netloc, **(headers or {})}
                if self.token and origin == self.origin:
                    sent["Authorization"] = "Bearer " + self.token
                target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
                made.request("GET", target, headers=sent)
                response = made.getresponse()
            except BaseException:
                made.close()
                raise
            finally:
                timer.cancel()
            answer = Answer(made, response)
            if response.status in (200, 206):
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    answer.close()
                    raise RemoteError("the remote sends an encoding that was not asked for")
                return answer
            answer.close()
            location = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or not location:
                raise RemoteError("%s answers %d" % (parts.path[:300], response.status),
                                  response.status)
            url = urllib.parse.urljoin(url, location)
        raise RemoteError("the remote redirects without end")

    def json(self, url):
        """A JSON answer of bounded size and time, and the next page's address."""
        self.go_on()
        answer = self.request(url)
        body, ends = bytearray(), time.monotonic() + ANSWER_SECONDS
        try:
            while block := answer.response.read1(BLOCK):
                body += block
                if len(body) > ANSWER_BYTES or time.monotonic() > ends:
                    raise RemoteError("an answer of the remote is too long, or too slow")
        finally:
            answer.close()
        try:
            value = json.loads(body.decode())
        except (ValueError, RecursionError):
            raise RemoteError("an answer of the remote is no JSON") from None
        link = re.search(r'<([^<>]*)>\s*;\s*rel="next"', answer.headers.get("Link", ""))
        return value, link and urllib.parse.urljoin(url, link.group(1))

    def api(self, repository, *words):
        kind, name = repository
        return "/".join([self.base, "api", kind + "s", urllib.parse.quote(name)]
                        + [urllib.parse.quote(word, safe="") for word in words])

    def refs(self, repository):
        """The branches and tags of a repository: name to (commit, is a tag)."""
        answer, _ = self.json(self.api(repository, "refs"))
        found = {}
        for key, tag in (("tags", True), ("branches", False)):
            for ref in answer.get(key) or [] if isinstance(answer, dict) else []:
                name = ref.get("name") if isinstance(ref, dict) else None
                oid = ref.get("targetCommit") if isinstance(ref, dict) else None
                if not isinstance(name, str) or not isinstance(oid, str) \
                        or not re.fullmatch(r"[0-9a-f]{40}", oid):
                    raise RemoteError("the remote names a malformed ref")
                if found.get(name, (oid, tag)) != (oid, tag):
                    raise RemoteError("the remote has two refs of one name")
                found[name] = (oid, tag)
        return found

    def files(self, repository, oid):
        """The files of a commit: {"path", "size", "sha256" or "oid"}."""
        url, found, pages = self.api(repository, "tree", oid) + "?recursive=true&limit=1000", [], 0
        while url:
            page, url = self.json(url)
            pages += 1
            if not isinstance(page, list) or pages > 1000 or url and not page:
                raise RemoteError("the remote lists files in a malformed way")
            for entry in page:
                if isinstance(entry, dict) and entry.get("type") == "directory":
                    continue
                found.append(checked_entry(entry))
            if len(found) > FILES:
                raise RemoteError("the version has more than %d files" % FILES)
        return found

    def descends(self, repository, oid, ancestor):
        """Whether a commit's history has another, as far as it is looked at."""
        url = self.api(repository, "commits", oid) + "?limit=1000"
        for _ in range(50):
            page, url = self.json(url)
            if any(isinstance(commit, dict) and commit.get("id") == ancestor
                   for commit in (page if isinstance(page, list) else [])):
                return True
            if not url:
                break
        return False

    def detail(self, repository, oid):
        """What the remote says of a commit."""
        if self.has_provenance:
            try:
                said, _ = self.json(self.api(repository, "provenance", oid))
                if isinstance(said, dict):
                    return said
            except RemoteError as error:
                if error.status not in (400, 404, 405, 501):
                    raise
                self.has_provenance = False
        said, _ = self.json(self.api(repository, "commits", oid) + "?limit=1")
        said = said[0] if isinstance(said, list) and said and isinstance(said[0], dict) else {}
        authors = said.get("authors") if isinstance(said.get("authors"), list) else []
        return {"oid": oid, "title": said.get("title"), "description": said.get("message"),
                "created_at": said.get("date"),
                "author": ", ".join(str(author.get("user")) for author in authors[:10]
                                    if isinstance(author, dict))}

    def open(self, repository, oid, file, offset=0):
        """The bytes of a file of a commit from an offset on."""
        kind, name = repository
        url = "/".join(([self.base, "datasets"] if kind == "dataset" else [self.base])
                       + [urllib.parse.quote(name), "resolve", oid,
                          urllib.parse.quote(file["path"])])
        answer = self.request(url, {"Range": "bytes=%d-" % offset} if offset else None, True)
        try:
            said = answer.headers.get("X-Repo-Commit", oid)
            if said != oid:
                raise RemoteError("the remote sends a file of commit %s for %s" % (said[:64], oid))
            began = time.monotonic()
            if answer.status == 206:
                if not re.fullmatch(r"bytes %d-%d/(%d|\*)" % (offset, file["size"] - 1, file["size"]),
                                    answer.headers.get("Content-Range", "")):
                    raise RemoteError("the remote sends another range than was asked for")
                return answer, answer.blocks(file["size"] - offset, began)
            return answer, skipped(answer.blocks(file["size"], began), offset)
        except BaseException:
            answer.close()
            raise

    def body(self, repository, oid, file):
        """The bytes of a small file, which have the digest that was announced."""
        answer, blocks = self.open(repository, oid, file)
        try:
            body = b"".join(blocks)
        finally:
            answer.close()
        digest = hashlib.sha256(body).hexdigest()
        etag = answer.headers.get("ETag", "").strip('"')
        wanted = file.get("sha256") or (etag if re.fullmatch("[0-9a-f]{64}", etag) else None)
        git = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
        # This registry's oid of a file that is not LFS's begins its SHA-256.
        if wanted and wanted != digest or not wanted and file["oid"] not in (git, digest[:40]):
            raise RemoteError('the bytes of "%s" have not the digest that was announced'
                              % file["path"][:200])
        return body, digest


def cut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def skipped(blocks, offset):
    for block in blocks:
        if offset < len(block):
            yield block[offset:]
        offset = max(offset - len(block), 0)


def checked_entry(entry):
    """A file of a listing, with nothing in it but what was checked."""
    lfs = entry.get("lfs") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or entry.get("type") != "file" \
            or not isinstance(entry.get("path"), str) or not entry["path"] \
            or "\0" in entry["path"] \
            or len(entry["path"]) > 1024 or not isinstance(entry.get("size"), int) \
            or isinstance(entry["size"], bool) or not 0 <= entry["size"] <= 1 << 42:
        raise RemoteError("the remote lists a malformed file")
    try:
        entry["path"].encode()
    except UnicodeEncodeError:
        raise RemoteError("the remote lists a path that is no Unicode") from None
    file = {"path": entry["path"], "size": entry["size"]}
    if lfs:
        if not isinstance(lfs, dict) or not isinstance(lfs.get("oid"), str) \
                or not re.fullmatch("[0-9a-f]{64}", lfs["oid"]) \
                or lfs.get("size", entry["size"]) != entry["size"]:
            raise RemoteError("the remote lists a malformed LFS file")
        return dict(file, sha256=lfs["oid"])
    if not isinstance(entry.get("oid"), str) or not re.fullmatch("[0-9a-f]{40}", entry["oid"]):
        raise RemoteError("the remote lists a file without a digest")
    if entry["size"] > REGULAR:
        raise RemoteError('"%s" has %d bytes and no SHA-256' % (entry["path"][:200], entry["size"]))
    return dict(file, oid=entry["oid"])
