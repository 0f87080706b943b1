#!/usr/bin/python3
"""A registry for tests that speaks the part of Hugging Face's API that is read.

usage: hub_stub.py PORT STATE LOG

It listens on 127.0.0.1.  STATE is a file of JSON, read for each request:

    token    that clients have to send, but to the CDN
    refs     {"branches": {NAME: OID}, "tags": {NAME: OID}}
    commits  {OID: {"parent": OID, "files": {PATH: FILE}}}; a FILE has "data"
             (BASE64) or "seed" and "size", and "lfs"
    faults   what it does wrong

As the Hub does, it lists files by pages, sends text itself, and redirects to
the CDN, another host, for what LFS keeps.  LOG gets a line for each request.
"""
import base64
import hashlib
import http.server
import json
import re
import sys
import time
import urllib.parse

PORT, STATE, LOG = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PAGE = 3


def content(file):
    if "data" in file:
        return base64.b64decode(file["data"])
    block, out = file["seed"].encode(), bytearray()
    while len(out) < file["size"]:
        block = hashlib.sha512(block).digest()
        out += block
    return bytes(out[:file["size"]])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, headers=()):
        self.answer(json.dumps(value).encode(), headers=[("Content-Type", "application/json"),
                                                         *headers])

    def do_GET(self):
        with open(STATE, encoding="utf-8") as file:
            self.state = json.load(file)
        self.faults = self.state.get("faults", {})
        with open(LOG, "a", encoding="utf-8") as log:
            print(json.dumps({"path": self.path, "range": self.headers.get("Range"),
                              "host": self.headers.get("Host"),
                              "token": self.headers.get("Authorization")}), file=log)
        try:
            self.route(urllib.parse.urlsplit(self.path))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self, url):
        words = [urllib.parse.unquote(word) for word in url.path.strip("/").split("/")]
        query = dict(urllib.parse.parse_qsl(url.query))
        if words[0] == "cdn":
            return self.cdn(words[1])
        if self.headers.get("Authorization") != "Bearer " + self.state["token"]:
            return self.answer(b'{"error": "Invalid credentials"}', 401)
        if words[:2] == ["api", "models"] and words[4] == "refs":
            refs = self.state["refs"]
            return self.json(self.faults.get("refs", {
                "branches": [{"name": name, "ref": "refs/heads/" + name, "targetCommit": oid}
                             for name, oid in refs["branches"].items()],
                "tags": [{"name": name, "ref": "refs/tags/" + name, "targetCommit": oid}
                         for name, oid in refs.get("tags", {}).items()], "converts": []}))
        if words[:2] == ["api", "models"] and words[4] in ("tree", "commits") \
                and words[5] in self.state["commits"]:
            return getattr(self, words[4])(words[5], query, url.path)
        if words[2:3] == ["resolve"] and words[3] in self.state["commits"]:
            return self.resolve(words[3], "/".join(words[4:]))
        return self.answer(b'{"error": "Not Found"}', 404)

    def tree(self, oid, query, path):
        entries = []
        for name, file in sorted(self.state["commits"][oid]["files"].items()):
            data = content(file)
            entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(
                b"blob %d\0" % len(data) + data).hexdigest()}
            if file.get("lfs"):
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data),
                                "pointerSize": 134}
            entries.append(entry)
        entries.append({"type": "directory", "path": "folder", "size": 0, "oid": "0" * 40})
        if "tree" in self.faults:
            entries = self.faults["tree"]
        at = int(query.get("cursor", "0"))
        next_page = self.faults.get("next", "http://127.0.0.1:%d%s?recursive=true&cursor=%d" % (
            PORT, path, at + PAGE))
        self.json(entries[at:at + PAGE], [("Link", '<%s>; rel="next"' % next_page)]
                  if at + PAGE < len(entries) or "next" in self.faults else [])

    def commits(self, oid, query, path):
        history = []
        while oid:
            history.append({"id": oid, "title": "of the hub", "message": "more",
                            "authors": [{"user": "ada", "avatar": ""}],
                            "date": "2026-01-02T03:04:05.000Z"})
            oid = self.state["commits"][oid].get("parent")
        self.json(history)

    def resolve(self, oid, path):
        file = self.state["commits"][oid]["files"][path]
        data = content(file)
        headers = [("X-Repo-Commit", self.faults.get("commit", oid))]
        if not file.get("lfs"):
            if "text" in self.faults:
                data = self.faults["text"].encode()
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            return self.answer(data, headers=headers + [("ETag", '"%s"' % git)])
        digest = hashlib.sha256(data).hexdigest()
        where = "http://localhost:%d/cdn/%s?Policy=signed" % (PORT, digest)
        return self.answer(b"", 302, headers + [
            ("Location", self.faults.get("redirect", where)), ("X-Linked-Size", str(len(data))),
            ("X-Linked-ETag", '"%s"' % digest), ("ETag", '"%s"' % digest)])

    def cdn(self, digest):
        """Another host, which must not see the token."""
        if self.headers.get("Authorization"):
            return self.answer(b"", 400)
        files = [file for commit in self.state["commits"].values()
                 for file in commit["files"].values()]
        data = next(data for data in map(content, files)
                    if hashlib.sha256(data).hexdigest() == digest)
        fault = self.faults.get("cdn")
        if fault == "wrong":
            data = data[:-1] + bytes([data[-1] ^ 1])
        elif fault == "short":
            data = data[:-1]
        elif fault == "long":
            data += b"x"
        headers, status = [("ETag", '"%s"' % digest)], 200
        if fault == "gzip":
            headers.append(("Content-Encoding", "gzip"))
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and fault != "no ranges":
            first = int(wanted.group(1))
            headers.append(("Content-Range", "bytes %d-%d/%d" % (first, len(data) - 1, len(data))))
            status, data = 206, data[first:]
        if fault == "stall":
            self.answer(data[:self.faults["bytes"]], status, headers, len(data))
            self.wfile.flush()
            time.sleep(600)
            self.close_connection = True
            return None
        if fault == "endless":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            while True:
                self.wfile.write(bytes(65536))
        if fault == "trickle":
            self.answer(b"", status, headers, len(data))
            for at in range(len(data)):
                self.wfile.write(data[at:at + 1])
                self.wfile.flush()
                time.sleep(0.05)
            return None
        return self.answer(data, status, headers)


http.server.ThreadingHTTPServer.daemon_threads = True
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
