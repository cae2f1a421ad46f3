"""Confines a thread and all processes that it starts to a few folders, on Linux with Landlock.

Landlock needs no privileges, cannot be undone, and denies everything that is not allowed: reading, writing and
executing files elsewhere, reading the memory and the environment of processes outside, and sending them signals. It
does not deny connections by TCP or by sockets that have a path. Nor does it deny changes of a file's mode, owner, times
and attributes; a seccomp filter blocks these. Source: Linux's `Documentation/userspace-api/landlock.rst` and
`seccomp_filter.rst`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same number on every machine since Linux 5.13
_ONLY_VERSION = 1
_BENEATH_A_PATH = 1
_NO_NEW_PRIVILEGES = 38
_DROP_CAPABILITY = 24
# root in a container keeps the capabilities to read files of other users, CAP_CHOWN to CAP_FOWNER; CAP_PERFMON would
# allow it to inspect other processes past Landlock
_CAPABILITIES, _KEPT_CAPABILITIES = range(64), frozenset({0, 1, 2, 3})

# by architecture: its number, and its system calls that change a file's mode, owner, times or attributes
_FILTERED = {
    "x86_64": (
        0xC000003E,
        (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466),
    ),
    "aarch64": (0xC00000B7, (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452, 463, 466)),
}
_SET_FILTER, _OF_A_FILTER = 22, 2
_OTHER_ABI = 0x40000000  # the x32 ABI of x86_64, with its own numbers of system calls
_IO_URING = 425  # io_uring could perform some of these calls past the filter
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_MAKE_DEVICES = 1 << 6 | 1 << 11
# rights of files that each version of Landlock added, and the signals and abstract sockets that it can deny
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
_SCOPES = {6: 0b11}


class _Ruleset(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("files", "network", "scoped"))


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    try:
        return max(0, _call(_CREATE_RULESET, None, 0, _ONLY_VERSION))
    except OSError:
        return 0


def confine(read: Iterable[Path], write: Iterable[Path]) -> bool:
    """Confine the calling thread, and the processes it starts from now on, to folders and files.

    Paths that do not exist are ignored. `read` allows reading and executing below each path, `write` everything but
    creating devices. Call it in a thread that does nothing else. If root calls it, capabilities that bypass Landlock
    are dropped. Returns False if the kernel has no Landlock.

    Raises:
        OSError: Landlock is available but refused the rules.
    """
    version = landlock_version()
    if not version:
        return False
    handled = sum(rights for since, rights in _RIGHTS.items() if since <= version)
    scoped = sum(scopes for since, scopes in _SCOPES.items() if since <= version)
    ruleset = _Ruleset(handled, 0, scoped)
    size = ctypes.sizeof(ruleset) if version >= 6 else 8
    rules = _call(_CREATE_RULESET, ctypes.byref(ruleset), size, 0)
    try:
        for path in read:
            _allow(rules, path, _READ)
        for path in write:
            _allow(rules, path, handled & ~_MAKE_DEVICES)
        for capability in _CAPABILITIES:
            if capability not in _KEPT_CAPABILITIES:
                _prctl(_DROP_CAPABILITY, capability)  # fails without the capability, and for ones unknown to the kernel
        if _prctl(_NO_NEW_PRIVILEGES, 1) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        _block_mode_changes()
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return True


def _block_mode_changes() -> None:
    """Block changes of a file's mode, owner, times and attributes. They report success: an error would end programs."""
    if os.uname().machine not in _FILTERED:
        return
    architecture, calls = _FILTERED[os.uname().machine]
    denied, refused = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUALS, 1, 0, architecture),
        (_RETURN, 0, 0, refused),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, refused),
        (_EQUALS, 0, 1, _IO_URING),
        (_RETURN, 0, 0, denied),
    ]
    for call in calls:
        steps += [(_EQUALS, 0, 1, call), (_RETURN, 0, 0, _ERRNO)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    program = _Program(len(steps), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_FILTER, ctypes.c_ulong(_OF_A_FILTER), ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if path.is_dir() else rights & _OF_FILES
        rule = _PathRule(allowed, opened)
        _call(_ADD_RULE, rules, _BENEATH_A_PATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(ctypes.c_long(number), *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _prctl(option: int, value: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))
