"""registry_pickle.py: what a pickle would do, without doing it.

Loading a pickle calls what it names.  All that it names must be known to be
harmless; what is not known is a finding.  Opcodes are read one by one, and a
stack of strings is kept beside them, as STACK_GLOBAL takes its names from it.
torch, NumPy and joblib keep pickles alone, one after the other, behind a
header, or in archives, which are looked into (registry_archive.py).
"""
import io
import pickletools
import struct

import registry_archive
from registry_archive import MAX_UNPACKED, TooMuch

MAX_OPCODES = 5_000_000
MAX_FINDINGS = 20
MAX_ARGUMENT = 64 << 20
MAX_START = 16 << 20
TORCH_MAGIC = 0x1950A86A20F9469CFC6C

# What is loaded as a pickle, and what may be one
PICKLES = (".pkl", ".pickle", ".p", ".dill", ".joblib", ".pt", ".pth")
LIKELY = PICKLES + (".bin", ".ckpt", ".npy", ".npz", ".data", ".model")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".nemo", ".mar", ".keras", ".whl")

HARMLESS = {
    "collections": {"OrderedDict", "defaultdict", "Counter", "deque"},
    "builtins": {"set", "frozenset", "dict", "list", "tuple", "int", "float", "str",
                 "bool", "bytes", "bytearray", "complex", "slice", "range", "object"},
    "__builtin__": {"set", "frozenset", "dict", "list", "tuple", "int", "long", "float",
                    "str", "unicode", "bool", "bytearray", "complex", "slice", "xrange",
                    "object"},
    "_codecs": {"encode"},
    "copyreg": {"_reconstructor"},
    "copy_reg": {"_reconstructor"},
    "datetime": {"datetime", "date", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID"},
    "argparse": {"Namespace"},
    "torch": {"device", "dtype", "Size", "Tensor", "strided", "bfloat16", "float16",
              "float32", "float64", "half", "float", "double", "int8", "int16", "int32",
              "int64", "uint8", "bool", "float8_e4m3fn", "float8_e5m2"},
    "torch._utils": {"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter",
                     "_rebuild_parameter_with_state", "_rebuild_qtensor",
                     "_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor",
                     "_rebuild_meta_tensor_no_storage", "_rebuild_device_tensor_from_numpy"},
    "torch._tensor": {"_rebuild_from_type_v2"},
    "torch.nn.parameter": {"Parameter"},
    "torch.serialization": {"_get_layout"},
    # not _load_from_bytes: it is torch.load of bytes that nobody scanned
    "torch.storage": {"TypedStorage", "UntypedStorage"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "joblib.numpy_pickle": {"NumpyArrayWrapper"},
}


def is_harmless(module, name):
    if module == "torch" and name.endswith("Storage") and name.isalnum():
        return True
    return name in HARMLESS.get(module, ())


def is_pickle(head):
    return head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05"


class Finding(Exception):
    """Enough was found."""


class Bounded:
    """A file that refuses to read what it does not have, or too much at once."""

    def __init__(self, file, size):
        self.file, self.size, self.at = file, size, file.tell()

    def tell(self):
        return self.at

    def read(self, n):
        if n < 0 or n > self.size - self.at:
            raise ValueError("it ends early")
        if n > MAX_ARGUMENT:
            raise TooMuch("an argument of %d bytes" % n)
        self.at += n
        return self.file.read(n)

    def readline(self):
        line = self.file.readline(MAX_ARGUMENT)
        if len(line) == MAX_ARGUMENT:
            raise TooMuch("a line of %d bytes" % MAX_ARGUMENT)
        self.at += len(line)
        return line


class Look:
    """One file, and all that is in it."""

    def __init__(self):
        self.findings = []
        self.notes = []
        self.pickles = 0
        self.opcodes = 0
        self.bounds = None

    def find(self, where, what):
        entry = "%s: %s" % (where[-200:], what[:300])
        if entry not in self.findings:
            self.findings.append(entry)
        if len(self.findings) >= MAX_FINDINGS:
            raise Finding()

    def note(self, where, what):
        if len(self.notes) < MAX_FINDINGS:
            self.notes.append("%s: %s" % (where[-200:], what[:300]))

    def name(self, where, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            self.find(where, "calls what it computes")
        elif not is_harmless(module, name):
            self.find(where, "calls %s.%s" % (module, name))

    def pickle(self, where, file, size):
        """One pickle; the integer it begins with, which tells torch's."""
        stack, memo, first = [], {}, None
        marks = []
        self.pickles += 1
        for opcode, arg, _ in pickletools.genops(Bounded(file, size)):
            self.opcodes += 1
            if self.opcodes > MAX_OPCODES:
                raise TooMuch("more than %d opcodes" % MAX_OPCODES)
            op = opcode.name
            if op in ("GLOBAL", "INST"):
                module, _, name = arg.partition(" ")
                self.name(where, module, name)
            elif op == "STACK_GLOBAL":
                name = stack.pop() if stack else None
                module = stack.pop() if stack else None
                self.name(where, module, name)
                stack.append(None)
                continue
            elif op in ("EXT1", "EXT2", "EXT4"):
                self.find(where, "calls extension %s" % arg)
            if first is None and isinstance(arg, int) and op not in ("PROTO", "FRAME"):
                first = arg
            self.step(op, opcode, arg, stack, marks, memo)
        return first

    @staticmethod
    def step(op, opcode, arg, stack, marks, memo):
        """The stack after an opcode; all but strings is None."""
        if op in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[arg] = stack[-1] if stack else None
        elif op == "MEMOIZE":
            memo[len(memo)] = stack[-1] if stack else None
        elif op in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo.get(arg))
        elif op == "DUP":
            stack.append(stack[-1] if stack else None)
        elif op == "MARK":
            marks.append(len(stack))
        elif op == "POP" and marks and marks[-1] == len(stack):
            marks.pop()
        elif isinstance(arg, str) and "UNICODE" in op or op.endswith("STRING"):
            stack.append(arg if isinstance(arg, str) else None)
        else:
            if pickletools.markobject in opcode.stack_before:
                if marks:
                    del stack[marks.pop():]
                keep = opcode.stack_before.index(pickletools.markobject)
            else:
                keep = len(opcode.stack_before)
            if keep and stack:
                del stack[-keep:]
            stack.extend([None] * len(opcode.stack_after))

    def pickles_in(self, where, file, size):
        """Pickles one after the other; torch writes five, then raw bytes."""
        n, least = 0, 1
        try:
            while file.tell() < size:
                head = file.read(2)
                file.seek(-len(head), io.SEEK_CUR)
                if n >= least and not is_pickle(head):
                    break
                first = self.pickle(where, file, size)
                n += 1
                if first == TORCH_MAGIC:
                    least = 5
        except (ValueError, IndexError, KeyError, OverflowError, struct.error) as error:
            # a broken pickle still makes the calls before the fault
            if n < least and (n > 0 or where.lower().endswith(PICKLES)):
                self.find(where, "is a broken pickle: %s" % error)

    def array(self, where, file, size):
        """A NumPy array of objects has a pickle behind its header."""
        head = file.read(8)
        width = 2 if head[6:7] == b"\x01" else 4
        length = int.from_bytes(file.read(width), "little")
        if length > 1 << 20:
            raise ValueError("a header of %d bytes" % length)
        header = file.read(length)
        if b"O" in header[header.find(b"descr"):header.find(b"fortran_order")] \
                or b"fortran_order" not in header:
            self.pickles_in(where, file, size)

    def archive(self, where, file, size, depth):
        """What is in an archive; whether the file is one."""
        found = False
        for path, stream, length in registry_archive.members(where, file, size, self.bounds, depth):
            found = True
            if stream is None:
                self.find(path, "is encrypted")
            else:
                self.member(path, stream, length, depth + 1)
        return found

    def member(self, where, stream, size, depth):
        likely = where.lower().endswith(LIKELY + ARCHIVES)
        if size is not None:
            head = stream.read(512)
            if likely or registry_archive.is_archive(head) or is_pickle(head):
                self.look(where, stream, size, depth)
            return
        head = stream.peek(512)[:512]
        if likely or registry_archive.is_archive(head):
            if head[:6] == b"\x93NUMPY":
                # numbers need no further check, however many
                before = self.pickles
                data = stream.read(2 << 20)
                self.array(where, io.BytesIO(data), len(data))
                if self.pickles == before:
                    return
                stream = io.BytesIO(data + stream.read(MAX_UNPACKED))
            self.look(where, *registry_archive.kept(stream), depth)
        elif is_pickle(head):
            # raw numbers may begin like a pickle, so its end is not asked for
            data = stream.read(MAX_START)
            self.pickles_in(where, io.BytesIO(data), len(data))

    def look(self, where, file, size, depth=0):
        if self.bounds is None:
            self.bounds = registry_archive.Bounds(size)
        file.seek(0)
        head = file.read(512)
        known = registry_archive.is_archive(head) or head[:6] == b"\x93NUMPY" or is_pickle(head)
        likely = where.lower().endswith(LIKELY)
        try:
            if self.archive(where, file, size, depth):
                return
            file.seek(0)
            if head[:6] == b"\x93NUMPY":
                self.array(where, file, size)
            elif is_pickle(head) or likely and not registry_archive.is_archive(head):
                self.pickles_in(where, file, size)
        except registry_archive.ERRORS + (struct.error,) as error:
            (self.find if likely or registry_archive.is_archive(head)
             or where.lower().endswith(ARCHIVES) else self.note)(
                where, "cannot be looked into: %s" % error)
        except TooMuch as error:
            # raw bytes may resemble anything
            (self.find if known or depth > 0 or where.lower().endswith(PICKLES) else self.note)(
                where, "is too much to look at: %s" % error)
