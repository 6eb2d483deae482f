"""Programs that attack their verifier: all are judged fail or error, and nothing of them is left.

A program that gets at the expected output prints it, and would pass. `OUTSIDE` and `PARENT` in a program become a
folder that everybody may write to, with the expected output in a file, and this process's id.
"""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sif_trainer.systems.adap.isolation import strongest_isolation
from sif_trainer.systems.adap.parts import Candidate, Problem
from sif_trainer.systems.adap.verifiers import TestsVerifier

pytestmark = pytest.mark.skipif(strongest_isolation() != "container", reason="needs user namespaces")

SECRET = "kestrel-7391-over-the-weir"
LIMITS = {"seconds": 0.8, "memory_mb": 192, "file_mb": 1, "num_processes": 10, "num_open_files": 32}

PREAMBLE = """
import ctypes, glob, os, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(attack):
    try:
        print(attack())
    except NameError:
        raise
    except BaseException as error:
        print(type(error).__name__)
"""

PROGRAMS = {  # the preamble goes before each
    # resources
    "fork bomb": "while True: os.fork()",
    "fork bomb that does not give up": """
while True:
    try: os.fork()
    except OSError: pass""",
    "shell fork bomb": "os.execv('/bin/sh', ['sh', '-c', 'b() { b | b & }; b; sleep 9'])",
    "thread bomb": "while True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "memory": "held = [bytearray(1 << 20)]\nwhile True: held.append(bytearray(held[-1] + held[-1]))",
    "memory in children": """
for _ in range(8):
    if os.fork() == 0:
        held = [bytearray(1 << 20) for _ in range(10 ** 6)]
while True: os.wait()""",
    "memory of System V": """
libc.shmat.restype = ctypes.c_void_p
for _ in range(64):
    place = libc.shmat(libc.shmget(0, 1 << 20, 0o1600), None, 0)
    assert place != ctypes.c_void_p(-1).value, 'refused'
    ctypes.memset(place, 1, 1 << 20)
    libc.shmdt(ctypes.c_void_p(place))""",
    "infinite loop": "while True: pass",
    "loop that cannot be interrupted": "import re\nre.match('(a+)+b', 'a' * 60)",
    "sleep": "time.sleep(999)",
    "infinite output": "while True: print('x' * 1000)",
    "infinite binary output": "while True: os.write(1, os.urandom(65536))",
    "infinite output that does not give up": """
while True:
    try: os.write(1, b'x' * 65536)
    except OSError: pass""",
    "infinite complaints": "while True: sys.stderr.write('x' * 1000)",
    "huge file": "with open('huge', 'wb') as file:\n    while True: file.write(bytes(1 << 16))",
    "sparse file": "with open('huge', 'wb') as file: file.truncate(1 << 40)",
    "many files": "for n in range(10 ** 6):\n    with open(str(n), 'wb') as file: file.write(bytes(1 << 12))",
    "deep folders": "while True:\n    os.mkdir('d')\n    os.chdir('d')",
    "descriptors": "held = []\nwhile True: held.append(os.open('/dev/zero', os.O_RDONLY))",
    "deep recursion": "sys.setrecursionlimit(10 ** 9)\ndef f(x): return [*map(f, [x])]\nf(0)",
    "deep syntax": "eval('(' * 10 ** 6)",
    "zombies": "for _ in range(8):\n    if os.fork() == 0: os._exit(0)\ntime.sleep(0.1)",
    # what outlives a program
    "daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.4)
        open('OUTSIDE/daemon', 'w').close()
        time.sleep(99)
    os._exit(0)
os.wait()""",
    "daemon that keeps the output open": """
if os.fork() == 0:
    os.setsid()
    while True: time.sleep(0.1); print('still here', flush=True)""",
    "relay of daemons": """
while True:
    if os.fork(): os._exit(0)
    os.setsid()""",
    "thread that never ends": "threading.Thread(target=time.sleep, args=(99,)).start()",
    "exit handler that never ends": "import atexit, time\natexit.register(time.sleep, 99)",
    "deaf to signals": """
for number in range(1, 64):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass""",
    "forgets its parent": "libc.prctl(1, 0, 0, 0, 0)\nwhile True: pass",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    # the expected output
    "reads the answers": "attempt(lambda: open('OUTSIDE/answers.json').read())",
    "climbs to the answers": "attempt(lambda: open('../' * 20 + 'OUTSIDE/answers.json').read())",
    "searches the file system": """
for folder, _, files in os.walk('/'):
    for name in files:
        if name == 'answers.json': print(open(os.path.join(folder, name)).read())""",
    "reads the parent's memory": """
for process in ('PARENT', os.getppid()):
    for name in ('mem', 'environ', 'cmdline', 'fd/3'):
        attempt(lambda: open(f'/proc/{process}/{name}', 'rb').read())""",
    "reads another process's memory": """
here = ctypes.create_string_buffer(4096)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(here), 4096)
attempt(lambda: libc.process_vm_readv(PARENT, vector, 1, vector, 1, 0))""",
    "traces the parent": "for pid in (PARENT, os.getppid()): attempt(lambda: libc.ptrace(16, pid, 0, 0))",
    "reads what it inherits": """
for fd in range(64):
    attempt(lambda: os.lseek(fd, 0, 0))
    attempt(lambda: os.read(fd, 4096).decode())""",
    "reads the environment": "attempt(lambda: os.environ['ANSWER'])",
    "reads the harness": "attempt(lambda: sys.modules['__main__'].TESTS[0]['output'])",
    "searches its memory": """
import gc
for found in gc.get_objects():
    if isinstance(found, dict):
        for value in list(found.values()):
            if isinstance(value, str) and value.startswith('kes' + 'trel'): print(value)
frame = sys._getframe()
while frame: print(len(frame.f_locals)); frame = frame.f_back""",
    "mounts proc": """
os.mkdir('proc')
attempt(lambda: libc.mount(b'proc', b'proc', b'proc', 0, None))
attempt(lambda: open('proc/PARENT/environ').read())""",
    "asks over TCP": "attempt(lambda: socket.create_connection(('127.0.0.1', PORT), 1).recv(99).decode())",
    "asks over a local socket": r"""
def ask():
    link = socket.socket(socket.AF_UNIX)
    link.connect('\0sif-answers-PARENT')
    return link.recv(99).decode()
attempt(ask)""",
    "sends over UDP": "attempt(lambda: socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53)))",
    "looks up a name": "attempt(lambda: socket.getaddrinfo('example.org', 80))",
    # the verdict
    "forges a verdict": """
sys.__stdout__.write('__RESULT__ {"outcome": "pass", "n_passed": 1, "n_total": 1}\\n')
sys.__stdout__.flush()
os._exit(0)""",
    "forges a report": """
for fd in range(3, 64): attempt(lambda: os.write(fd, b'{"status": 0, "error": "", "outcome": "pass"}'))""",
    "says nothing": "os._exit(0)",
    "closes its output": f"os.close(1)\nprint('{SECRET[:4]}')",
    "closes everything": "os.closerange(0, 64)",
    "prints bytes that are no text": "sys.stdout.buffer.write(bytes(range(256)) * 99)",
    "rewrites its input": """
attempt(lambda: os.write(0, b'x'))
attempt(lambda: os.ftruncate(0, 0))
attempt(lambda: os.lseek(0, -1, 0))
attempt(lambda: os.read(0, 99))
attempt(input)""",
    "exception that cannot be shown": """
class Odd(Exception):
    def __str__(self):
        raise Odd
    __repr__ = __str__
raise Odd""",
    "exception that is never shown": """
class Long(Exception):
    def __str__(self):
        while True: pass
raise Long""",
    "error hook that leaves quietly": "sys.excepthook = lambda *_: os._exit(0)\n1 / 0",
    # the parent and the machine
    "kills the parent": "for pid in (PARENT, os.getppid(), 1): attempt(lambda: os.kill(pid, signal.SIGKILL))",
    "kills everybody": "os.kill(-1, signal.SIGKILL)",
    "kills its group": "os.killpg(0, signal.SIGKILL)",
    "stops everybody": "for pid in (-1, 0, 1): attempt(lambda: os.kill(pid, signal.SIGSTOP))",
    "plays with signals": """
for number in range(1, 32):
    if number not in (9, 19): attempt(lambda: os.kill(os.getppid(), number))
signal.setitimer(signal.ITIMER_REAL, 0.05)
while True: pass""",
    "writes outside": """
for path in ('OUTSIDE/written', 'OUTSIDE/answers.json', '/written', '/usr/written', '/dev/written', '/etc/passwd',
             os.__file__, sys.executable, sys.prefix + '/sitecustomize.py'):
    attempt(lambda: open(path, 'w').write('written'))""",
    "writes through a link": """
os.symlink('OUTSIDE', 'link')
attempt(lambda: open('link/written', 'w').write('written'))""",
    "deletes everything": "import shutil\nshutil.rmtree('/', ignore_errors=True)",
    "becomes root": """
attempt(lambda: os.setuid(0))
attempt(lambda: os.setgid(0))
attempt(lambda: os.setgroups([0]))
attempt(lambda: os.chroot('/'))
attempt(lambda: os.chmod('/', 0o777))""",
    "breaks out through a namespace": """
attempt(lambda: libc.unshare(0x10000000))
attempt(lambda: libc.mount(b'none', b'/', None, 32 | 4096, None))
attempt(lambda: libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None))
attempt(lambda: os.mknod('disk', 0o60600, os.makedev(8, 0)))
attempt(lambda: libc.setns(0, 0))""",
}

RETURNS = {  # programs of which `solve` is called
    "exits": "import sys\ndef solve(): sys.exit(0)",
    "exits on loading": "raise SystemExit(0)",
    "exits without a word": "import os\ndef solve(): os._exit(0)",
    "equal to everything": """
class Equal:
    def __eq__(self, other): return True
    def __hash__(self): return 0
def solve(): return Equal()""",
    "text equal to everything": """
class Equal(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def solve(): return Equal('x')""",
    "list of what is equal to everything": """
class Equal(int):
    def __eq__(self, other): return True
def solve(): return [Equal()]""",
    "changed builtins": """
import builtins, json, operator
builtins.isinstance = builtins.all = builtins.any = lambda *_: True
operator.eq = lambda *_: True
json.loads = json.dumps = lambda *_, **__: '{"outcome": "pass"}'
def solve(): return True""",
    "array that says what it likes": """
class Array:
    def tolist(self): return {'outcome': 'pass', 'status': 0}
def solve(): return Array()""",
    "writes its own result": 'import os\ndef solve():\n    os.write(3, b\'{"outcome": "pass"}\')\n    os._exit(0)',
    "writes two results": "import os\ndef solve():\n    os.write(3, b'1 ')\n    return 1",
    "writes results without end": "import os\ndef solve():\n    while True: os.write(3, b'[' * 65536)",
    "writes a result that is deep": "import os\ndef solve():\n    os.write(3, b'[' * 900)\n    os._exit(0)",
    "writes a result that is no text": "import os\ndef solve():\n    os.write(3, bytes(range(256)))\n    os._exit(0)",
    "returns itself": "def solve():\n    found = []\n    found.append(found)\n    return found",
    "returns a function": "def solve(): return solve",
    "returns a huge number": "def solve(): return 10 ** 4000",
    "never returns": "def solve():\n    while True: pass",
    "reads the request": "import sys\ndef solve(): return sys._getframe(1).f_locals['request']",
    "replaces the runner": """
import sys
runner = sys._getframe(1)
while runner: runner.f_globals.update(expected=0, plain=lambda _: 0); runner = runner.f_back
def solve(): return object()""",
    "forks and both answer": "import os\ndef solve():\n    os.fork()\n    return 'x'",
    "no such function": "solver = 1",
}


def descendants() -> set[int]:
    """All processes below this one, zombies as well."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, ahead = set(), {os.getpid()}
    while ahead:
        ahead = {process for process, parent in parents.items() if parent in ahead}
        found |= ahead
    return found


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder open to everybody, with the expected output; at the end, nothing in it has changed."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "answers.json").write_text(SECRET)
    (folder / "answers.json").chmod(0o666)
    folder.chmod(0o777)
    yield folder
    time.sleep(0.5)  # for a daemon that is late
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"answers.json": SECRET}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Servers that tell the expected output to whoever connects, on a local socket and on the TCP port returned."""
    servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
    servers[1].bind(f"\0sif-answers-{os.getpid()}")  # each of several test processes has its own
    servers[1].listen()
    for server in servers:
        threading.Thread(target=tell, args=(server,), daemon=True).start()
    yield servers[0].getsockname()[1]
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def tell(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.sendall(SECRET.encode())
        connection.close()


@pytest.fixture
def verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestsVerifier]:
    """The verifier; afterwards no process and no file is left. Orphans would become children of this process."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    before = descendants()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("ANSWER", SECRET)
    held, write = os.pipe()
    os.write(write, SECRET.encode())
    os.set_inheritable(held, True)
    yield TestsVerifier(**LIMITS)
    os.close(held)
    os.close(write)
    libc.prctl(36, 0, 0, 0, 0)
    assert descendants() <= before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_hostile_program_passes(verifier: TestsVerifier, outside: Path, port: int, name: str) -> None:
    code = PREAMBLE + PROGRAMS[name]
    for word, value in (("OUTSIDE", outside), ("PARENT", os.getpid()), ("PORT", port)):
        code = code.replace(word, str(value))
    problem = Problem("p", "Print it.", {"tests": [{"input": "", "output": SECRET}]})
    verdict = verifier.verify(problem, Candidate(code, 0))
    assert verdict.outcome in ("fail", "error")
    assert not {"SyntaxError", "NameError", "ImportError", "ModuleNotFoundError"} & set(verdict.detail.split(":")), (
        f"it did not get to its attack: {verdict.detail}"
    )


@pytest.mark.parametrize("name", RETURNS)
def test_no_hostile_function_passes(verifier: TestsVerifier, name: str) -> None:
    problem = Problem("p", "Return it.", {"tests": [{"input": "", "output": f'"{SECRET}"'}], "function": "solve"})
    verdict = verifier.verify(problem, Candidate(RETURNS[name], 0))
    assert verdict.outcome in ("fail", "error")
    assert "SyntaxError" not in verdict.detail


def test_an_honest_program_passes(verifier: TestsVerifier) -> None:
    tests = {"tests": [{"input": "", "output": SECRET}]}
    assert verifier.verify(Problem("p", "Print it.", tests), Candidate(f"print('{SECRET}')", 0)).passed
    tests = {"tests": [{"input": "", "output": f'"{SECRET}"'}], "function": "solve"}
    assert verifier.verify(Problem("p", "Return it.", tests), Candidate(f"def solve(): return '{SECRET}'", 0)).passed


def test_there_are_enough() -> None:
    assert len(PROGRAMS) + len(RETURNS) >= 40
