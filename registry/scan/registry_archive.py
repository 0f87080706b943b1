"""registry_archive.py: what is in an archive, within bounds.

Whoever made the archive chose its sizes, its names and how often it is packed,
so each of these has a bound: the members of one file with all that it contains,
how deep archives are in archives, how many bytes are unpacked of one file in
proportion to its size, and how many are kept at once.  A file that passes one
of them is too much to look at.

Archives are recognised by their bytes, not by their names: zip, also with other
bytes before it, tar, and gzip, bzip2 and xz with a tar or one file in it.
"""
import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib

MAX_MEMBERS = 100_000
MAX_DEPTH = 5
MAX_RATIO = 50              # unpacked bytes for each byte of the file
MAX_UNPACKED = 128 << 20    # unpacked, whatever the file's size; kept at once
TAIL = 22 + 65535           # the end of a zip, with the longest comment

STREAMS = {b"\x1f\x8b\x08": lambda file: gzip.GzipFile(fileobj=file),
           b"\xfd7zXZ\0": lzma.LZMAFile}
STREAMS.update((b"BZh%d1AY&SY" % level, bz2.BZ2File) for level in range(1, 10))
ERRORS = (zipfile.BadZipFile, zipfile.LargeZipFile, tarfile.TarError, lzma.LZMAError,
          zlib.error, ValueError, EOFError, NotImplementedError, gzip.BadGzipFile)


class TooMuch(Exception):
    """More than a scanner looks at."""


class Bounds:
    """What may still be unpacked of one file of a version."""

    def __init__(self, size):
        self.left = MAX_UNPACKED + MAX_RATIO * size
        self.members = 0

    def unpack(self, n):
        self.left -= n
        if self.left < 0:
            raise TooMuch("archives that unpack to %d times their size" % MAX_RATIO)

    def member(self):
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise TooMuch("more than %d members" % MAX_MEMBERS)


class Unpacked(io.RawIOBase):
    """A stream whose bytes count for the bounds; it is read once."""

    def __init__(self, stream, bounds):
        super().__init__()
        self.stream, self.bounds = stream, bounds

    def readable(self):
        return True

    def readinto(self, buffer):
        # unpack little at once, so that a bomb passes its bound before it is large
        data = self.stream.read(min(len(buffer), 1 << 20))
        self.bounds.unpack(len(data))
        buffer[:len(data)] = data
        return len(data)


def kind_of(file, size):
    """zip, tar, or the beginning of a compressed stream; None for other files."""
    file.seek(0)
    head = file.read(512)
    if head[:4] == b"PK\x03\x04":
        return "zip"
    if head[257:262] == b"ustar":
        return "tar"
    for magic in STREAMS:
        if head.startswith(magic):
            return magic
    file.seek(max(size - TAIL, 0))
    tail = file.read(min(size, TAIL))
    at = tail.rfind(b"PK\x05\x06")
    # the comment ends with the file, or these four bytes are by chance
    if at >= 0 and at + 22 + int.from_bytes(tail[at + 20:at + 22], "little") == len(tail):
        return "zip"
    return None


def kept(stream):
    """A member's bytes in memory, so that it can be read from any place."""
    data = stream.read(MAX_UNPACKED + 1)
    if len(data) > MAX_UNPACKED:
        raise TooMuch("an archive of more than %d bytes in an archive" % MAX_UNPACKED)
    return io.BytesIO(data), len(data)


def zip_members(where, file, bounds):
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            bounds.member()
            if member.is_dir():
                continue
            path = "%s/%s" % (where, member.filename)
            if member.flag_bits & 1:
                yield path, None, None
                continue
            with archive.open(member) as stream:
                yield path, io.BufferedReader(Unpacked(stream, bounds), 1 << 16), None


def tar_members(where, file, bounds, mode):
    # other programs go on after blocks that are empty or no header
    with tarfile.open(fileobj=file, mode=mode, ignore_zeros=True) as archive:
        for member in archive:
            bounds.member()
            if member.isreg():
                path, stream = "%s/%s" % (where, member.name), archive.extractfile(member)
                if mode == "r:" and member.sparse is None:
                    yield path, stream, member.size
                else:
                    yield path, io.BufferedReader(Unpacked(stream, bounds), 1 << 16), None


def members(where, file, size, bounds, depth):
    """
    The members of an archive, none for other files: path, stream and size.  A
    member of unknown size can be read once, from its beginning; one without a
    stream is encrypted.
    """
    kind = kind_of(file, size)
    file.seek(0)
    if kind is None:
        return
    if depth >= MAX_DEPTH:
        raise TooMuch("archives in archives")
    if kind == "zip":
        yield from zip_members(where, file, bounds)
    elif kind == "tar":
        yield from tar_members(where, file, bounds, "r:")
    else:
        stream = io.BufferedReader(Unpacked(STREAMS[kind](file), bounds), 1 << 16)
        if stream.peek(512)[257:262] == b"ustar":
            yield from tar_members(where, stream, bounds, "r|")
        else:
            bounds.member()
            yield where.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"), stream, None


def is_archive(head):
    """Whether a member begins like an archive."""
    return (head[:4] == b"PK\x03\x04" or head[257:262] == b"ustar"
            or any(head.startswith(magic) for magic in STREAMS))
