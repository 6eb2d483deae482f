"""Run one program behind the walls of a level: the file that `Isolation.run` starts in a process of its own.

    python -I -S enter.py JOB_FD REPORT_FD < input > output

It needs nothing but the standard library. Three processes at level `container`: this one stays outside, maps the user
and reaps; the first child makes the namespaces; its child is process 1 within them, and everything that the program
has started dies with it. At the other levels the program is a child of this process. What the caller reads on
REPORT_FD is one JSON object, {"status": exit status, 128 + n after signal n; "error": which wall could not be built}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

LINUX = sys.platform == "linux"
NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000  # CLONE_NEW: USER, NS, PID, NET, IPC
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/alternatives")
NOBODY = 65534
SWEEP_SECONDS = 5.0

libc = ctypes.CDLL(None, use_errno=True)


class Stop(Exception):
    """The caller wants no more of this."""


def call(function: str, *arguments: Any) -> None:
    """Call the C library; a failure raises an `OSError` that names the function."""
    encoded = [arg.encode() if isinstance(arg, str) else arg for arg in arguments]
    if getattr(libc, function)(*encoded) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")


def main(job_fd: int, report_fd: int) -> None:
    signal.signal(signal.SIGTERM, stop)
    with open(job_fd, encoding="utf-8") as file:
        job = json.load(file)
    if LINUX:
        call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        call("prctl", PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    job["uid"] = own_uid(job["level"])
    report: dict[str, Any] = {"status": None, "error": ""}
    child = 0
    try:
        built, built_write = os.pipe()  # says what went wrong, or closes when the program is executed
        unshared, unshared_write = os.pipe()
        mapped, mapped_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(report_fd)
            start(job, built_write, unshared_write, mapped)
        for end in (built_write, unshared_write, mapped):
            os.close(end)
        if os.read(unshared, 1):
            map_users(child, job["uid"])
            os.write(mapped_write, b"x")
        with open(built, "rb") as file:
            report["error"] = file.read().decode()
        report["status"] = exit_status(os.waitpid(child, 0)[1])
    except Stop:
        pass
    except OSError as error:
        report["error"] = str(error)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report["error"] = report["error"] or sweep(child, job)
    os.write(report_fd, json.dumps(report).encode())


def stop(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def own_uid(level: str) -> int | None:
    """The user that the program runs as: another one if this process may choose."""
    if os.geteuid() != 0 or level == "limits":
        return None
    return NOBODY if level == "container" else 1_000_000_000 + os.getpid()  # its own, so that it can signal no other


def start(job: dict[str, Any], built: int, unshared: int, mapped: int) -> NoReturn:
    """Build the walls from inside and become the program; the parent reads from `built` what failed."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        die_with_parent()
        box = Path(job["box"])
        if job["level"] == "container":
            call("unshare", NAMESPACES)
            os.write(unshared, b"x")
            os.read(mapped, 1)
            first = os.fork()
            if first:
                os.close(built)
                os._exit(exit_status(os.waitpid(first, 0)[1]))
            box = build_root(box, job)
        os.close(unshared)
        for name, text in job["files"].items():
            (box / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        if job["level"] == "user":
            os.chown(box, job["uid"], job["uid"])
        os.chdir(box)
        set_limits(job)
        become(job["uid"])
        if job["level"] == "container":
            program = os.fork()
            if program:
                os.close(built)
                wait_as_first_process(program)
            os.setsid()  # out of the group of the process outside
        os.dup2(os.dup(job["result_fd"]), 3)
        if job["result_fd"] != 3:
            os.close(job["result_fd"])  # the last one that the program would inherit besides 0 to 3
        environment = {**job["environment"], "HOME": str(box), "TMPDIR": str(box)}
        os.execve(job["program"][0], job["program"], environment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(built, f"{error}".encode())
    os._exit(1)


def die_with_parent() -> None:
    if LINUX:
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def map_users(process: int, uid: int | None) -> None:
    """Give the new user namespace its own user (its group as well), and `uid` besides, which only root can."""
    if uid is None:
        Path(f"/proc/{process}/setgroups").write_text("deny")
    for name, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        second = "" if uid is None else f"{uid} {uid} 1\n"
        Path(f"/proc/{process}/{name}").write_text(f"{own} {own} 1\n{second}")


FOLDER = "sandbox"  # where a program starts; the one place that it can write to


def build_root(root: Path, job: dict[str, Any]) -> Path:
    """Make a root of the system's libraries and Python, read-only, and an empty writable folder; return the folder."""
    for name in ("user/max_user_namespaces", "kernel/shmall"):  # no namespaces within, no memory that no limit counts
        with contextlib.suppress(OSError):  # /proc/sys may be read-only
            Path("/proc/sys", name).write_text("0")
    call("mount", "none", "/", None, MS_REC | MS_PRIVATE, None)
    call("mount", "tmpfs", str(root), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    shown: list[Path] = []
    for path in map(Path, (*SYSTEM, *DEVICES, *job["visible"])):
        if path.exists() and not any(path.is_relative_to(other) for other in shown):
            show(path, root)
            shown.append(path)
    folder = root / FOLDER
    folder.mkdir()
    call("mount", "tmpfs", str(folder), "tmpfs", MS_NOSUID | MS_NODEV, f"size={job['file_mb']}m,mode=1777")
    with contextlib.suppress(FileExistsError):  # Python itself may be installed below /tmp
        (root / "tmp").symlink_to(f"/{FOLDER}")
    os.chdir(root)
    call("pivot_root", ".", ".")
    call("umount2", ".", MNT_DETACH)
    call("mount", "none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, None)
    return Path("/", FOLDER)


def show(path: Path, root: Path) -> None:
    """Make a file or folder visible below `root`, read-only; a link stays a link."""
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(os.readlink(path))
        return
    if path.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    call("mount", str(path), str(target), None, MS_BIND, None)
    flags = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)  # which a namespace may not take away
    call("mount", "none", str(target), None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, None)


def set_limits(job: dict[str, Any]) -> None:
    """Set the limits of the processes to come; one that is lower already stays."""
    megabyte = 1 << 20
    limits = {
        "RLIMIT_CPU": job["cpu_seconds"],
        "RLIMIT_FSIZE": job["file_mb"] * megabyte,
        "RLIMIT_NOFILE": job["num_open_files"],
        "RLIMIT_CORE": 0,
    }
    if LINUX:  # macOS takes no limit on memory, and counts all of a user's processes
        limits["RLIMIT_AS"] = job["memory_mb"] * megabyte
        limits["RLIMIT_NPROC"] = job["num_processes"] + (num_tasks_of_user() if job["uid"] is None else 0) + 2
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def num_tasks_of_user() -> int:
    """Processes and threads of this user, which its limit counts; none in a container, which starts to count anew."""
    num = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.geteuid():
                num += len(os.listdir(path / "task"))
    return num


def become(uid: int | None) -> None:
    """Give up every privilege, for good."""
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if LINUX:
        header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if uid is not None or os.geteuid() != 0:
            call("capset", header, nothing)
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        die_with_parent()  # again: a change of user forgets it


def wait_as_first_process(program: int) -> NoReturn:
    """Reap what is orphaned till the program ends; with this process, all that it left ends as well."""
    while True:
        process, status = os.wait()
        if process == program:
            os._exit(exit_status(status))


def exit_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def sweep(child: int, job: dict[str, Any]) -> str:
    """Kill and reap all that is left; return what could not be done."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        if job["level"] == "user":
            kill_user(job["uid"])
        if child:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        for process in descendants():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return ""
        time.sleep(0.002)
    return "the program left processes behind that could not be killed"


def kill_user(uid: int) -> None:
    """Kill all processes of a user at once, from one of them."""
    killer = os.fork()
    if killer == 0:
        with contextlib.suppress(OSError):
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(killer, 0)


def descendants() -> list[int]:
    """Processes below this one, where the system shows them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, ahead = [], [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
