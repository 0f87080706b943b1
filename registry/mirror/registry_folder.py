"""The folder in which versions of repositories travel where no network goes.

    manifest.json    what is in it: repositories, refs, versions with the path,
                     size and SHA-256 of each file, and what is known of them
    manifest.sig     the Ed25519 signature of manifest.json, 64 bytes
    files/SHA256     each file once, by its digest

A folder that is read comes from a stranger until its signature is good, and
even then each byte is compared. Nothing in it is followed or executed, and
what the manifest does not name is refused.
"""
import datetime
import hashlib
import json
import os
import re
import stat

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

FORMAT = "gpucredit-registry-export/1"
MANIFEST_BYTES = 256 << 20
BLOCK = 1 << 20
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"


class FolderError(Exception):
    """The folder is not what it should be."""


def private_key(path):
    """The key that signs. As with SSH, nobody else may read its file."""
    if os.stat(path).st_mode & 0o077:
        raise FolderError("others may read the key %s: chmod 600" % path)
    with open(path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise FolderError("%s is no Ed25519 key" % path)
    return key


def trusted_keys(folder):
    """The public keys NAME.pem of a folder; the name is the source's."""
    keys = {}
    for entry in sorted(os.listdir(folder)):
        name, ending = os.path.splitext(entry)
        if ending != ".pem":
            continue
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
            raise FolderError("%s is no name of a source" % name)
        with open(os.path.join(folder, entry), "rb") as file:
            key = serialization.load_pem_public_key(file.read())
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise FolderError("%s is no public Ed25519 key" % entry)
        keys[name] = key
    return keys


class Writer:
    """Writes a folder. Until it is signed, its name ends with ".partial"."""

    def __init__(self, path):
        self.path, self.partial = path.rstrip("/"), path.rstrip("/") + ".partial"
        if os.path.lexists(self.path):
            raise FolderError("%s is there already" % self.path)
        os.makedirs(os.path.join(self.partial, "files"), exist_ok=True)
        # Others could have put links where files are going to be written.
        for folder in (self.partial, os.path.join(self.partial, "files")):
            about = os.lstat(folder)
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() \
                    or about.st_mode & 0o022:
                raise FolderError("%s is not a folder that you alone may write" % folder)
        self.kept = set()

    def add(self, digest, size, blocks):
        """Keeps a file; one that is there since an earlier attempt stays."""
        path = os.path.join(self.partial, "files", digest)
        if digest in self.kept:
            return
        try:
            with open(path, "rb") as file:
                there = os.fstat(file.fileno()).st_size == size \
                    and hashlib.file_digest(file, "sha256").hexdigest() == digest
        except FileNotFoundError:
            there = False
        if not there:
            summed = hashlib.sha256()
            with open(path + ".part", "wb") as file:
                for block in blocks():
                    summed.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if summed.hexdigest() != digest:
                raise FolderError("bytes came that have not the digest %s" % digest)
            os.rename(path + ".part", path)
        self.kept.add(digest)

    def finish(self, key, exported_at, repositories):
        for entry in os.listdir(os.path.join(self.partial, "files")):
            if entry not in self.kept:
                os.unlink(os.path.join(self.partial, "files", entry))
        manifest = json.dumps({"format": FORMAT, "exported_at": exported_at,
                               "repositories": repositories}, indent=1).encode()
        if len(manifest) > MANIFEST_BYTES:
            raise FolderError("the manifest is larger than %d bytes" % MANIFEST_BYTES)
        for name, data in (("manifest.json", manifest), ("manifest.sig", key.sign(manifest))):
            with open(os.path.join(self.partial, name), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for folder in (os.path.join(self.partial, "files"), self.partial):
            sync_folder(folder)
        os.rename(self.partial, self.path)
        sync_folder(os.path.dirname(os.path.abspath(self.path)))


def sync_folder(path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


def once(pairs):
    """An object of JSON, in which no name may stand twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def refuse_constant(word):
    raise ValueError("%s is no JSON" % word)


def need(condition, what):
    if not condition:
        raise FolderError("the manifest is malformed: " + what)


class Reader:
    """Reads a folder, and refuses it unless all of it is as it was signed."""

    def __init__(self, path, keys):
        self.top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self.files = self.open_file("files", self.top, os.O_DIRECTORY)
        signature = self.whole("manifest.sig", 64)
        manifest = self.whole("manifest.json", MANIFEST_BYTES)
        self.source = self.signer(keys, signature, manifest)
        try:
            value = json.loads(manifest.decode(), object_pairs_hook=once,
                               parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise FolderError("the manifest is no JSON: %s" % str(error)[:200]) from None
        self.sizes = {}
        self.check(value)
        self.check_names()

    @staticmethod
    def signer(keys, signature, manifest):
        for name, key in keys.items():
            try:
                key.verify(signature, manifest)
                return name
            except InvalidSignature:
                pass
        raise FolderError("the signature is of no key that is trusted here")

    def open_file(self, name, folder, flags=0):
        """Opens what is a file or a folder itself, and no link to one."""
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags,
                             dir_fd=folder)
        except OSError as error:
            raise FolderError("%s cannot be read: %s" % (name, error.strerror)) from None
        about = os.fstat(handle)
        if not flags and (not stat.S_ISREG(about.st_mode) or about.st_nlink != 1):
            os.close(handle)
            raise FolderError("%s is not a file of its own" % name)
        return handle

    def whole(self, name, most):
        with os.fdopen(self.open_file(name, self.top), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise FolderError("%s has more than %d bytes" % (name, most))
        return data

    def check(self, value):
        need(isinstance(value, dict) and value.get("format") == FORMAT, "another format")
        try:
            self.exported_at = datetime.datetime.fromisoformat(value["exported_at"])
            need(self.exported_at.tzinfo is not None, "a time without a zone")
        except (KeyError, TypeError, ValueError):
            raise FolderError("the manifest is malformed: exported_at") from None
        need(isinstance(value.get("repositories"), list)
             and len(value["repositories"]) <= 10000, "repositories")
        self.repositories = value["repositories"]
        names = set()
        for repository in self.repositories:
            need(isinstance(repository, dict) and repository.get("kind") in ("model", "dataset")
                 and isinstance(repository.get("repository"), str)
                 and re.fullmatch("%s(/%s)?" % (NAME, NAME), repository["repository"]),
                 "the name of a repository")
            names.add((repository["kind"], repository["repository"]))
            self.check_repository(repository)
        need(len(names) == len(self.repositories), "a repository stands twice")

    def check_repository(self, repository):
        versions, refs = repository.get("versions"), repository.get("refs")
        need(isinstance(versions, list) and len(versions) <= 1000, "versions")
        need(isinstance(refs, list) and len(refs) <= 1000, "refs")
        oids = set()
        for version in versions:
            need(isinstance(version, dict) and isinstance(version.get("oid"), str)
                 and re.fullmatch("[0-9a-f]{40}", version["oid"])
                 and version["oid"] not in oids, "the oid of a version")
            oids.add(version["oid"])
            need(isinstance(version.get("detail"), dict), "the detail of a version")
            need(isinstance(version.get("files"), list) and len(version["files"]) <= 100000,
                 "the files of a version")
            paths = set()
            for file in version["files"]:
                self.check_file(file)
                need(file["path"] not in paths, "a path stands twice")
                paths.add(file["path"])
        named = set()
        for ref in refs:
            need(isinstance(ref, dict) and isinstance(ref.get("ref"), str)
                 and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", ref["ref"])
                 and isinstance(ref.get("tag"), bool) and ref.get("oid") in oids
                 and ref["ref"] not in named, "a ref")
            named.add(ref["ref"])

    def check_file(self, file):
        need(isinstance(file, dict) and isinstance(file.get("path"), str)
             and isinstance(file.get("sha256"), str)
             and re.fullmatch("[0-9a-f]{64}", file["sha256"])
             and type(file.get("size")) is int and 0 <= file["size"] <= 1 << 42
             and isinstance(file.get("lfs"), bool), "a file")
        # The rules are the database's; these parts lead out of any folder.
        need(not {"", ".", ".."} & set(file["path"].split("/")), "a path")
        need(self.sizes.setdefault(file["sha256"], file["size"]) == file["size"],
             "two sizes of one digest")

    def check_names(self):
        """The folder has what the manifest names, in its size, and nothing else."""
        extra = set(os.listdir(self.top)) - {"manifest.json", "manifest.sig", "files"}
        extra |= set(os.listdir(self.files)) - set(self.sizes)
        if extra:
            raise FolderError("the manifest does not name %s" % ascii(sorted(extra)[0])[:200])
        for digest, size in self.sizes.items():
            handle = self.open_file(digest, self.files)
            there = os.fstat(handle).st_size
            os.close(handle)
            if there != size:
                raise FolderError("files/%s has %d bytes, not %d" % (digest, there, size))

    def check_digests(self):
        for digest, size in self.sizes.items():
            summed = hashlib.sha256()
            for block in self.blocks(digest, 0, size):
                summed.update(block)
            if summed.hexdigest() != digest:
                raise FolderError("files/%s has other bytes" % digest)

    def blocks(self, digest, offset, size):
        """The bytes of a file from an offset on, and never more than its size."""
        with os.fdopen(self.open_file(digest, self.files), "rb") as file:
            file.seek(offset)
            left = size - offset
            while left > 0:
                block = file.read(min(BLOCK, left))
                if not block:
                    raise FolderError("files/%s became shorter" % digest)
                left -= len(block)
                yield block
