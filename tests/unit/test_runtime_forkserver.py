"""The fork server: its newcomers are like processes that ``subprocess`` starts, and children of who asks."""

from __future__ import annotations

import ast
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apgas.runtime import forkserver
from apgas.runtime.forkserver import STREAM, Forked, ForkServer, Loads
from scheduler_bridge.jobrunner.processes import identity

HERE = Loads.here({})
CORES = len(os.sched_getaffinity(0))


def started(words: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True)


@pytest.fixture
def ended() -> list[int]:
    return []


@pytest.fixture
def server(ended: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setattr(forkserver, "ANSWER_S", 300.0)  # on a busy machine it may take long to load all
    one = ForkServer(started, ended.append)
    yield one
    one.close()


def run(server: ForkServer, code: str, folder: Path, loads: Loads = HERE, **environ: str) -> tuple[int, str, str]:
    """What a newcomer that executes ``code`` ends with, prints, and writes to its stream."""
    reading, writing = os.pipe()
    output = folder / "output"
    with server.forking(sys.executable, loads, CORES + 1) as possible, output.open("w") as file:
        assert possible
        newcomer = Forked(server.fork(code, environ, str(folder), (file.fileno(), 2, writing)))
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        written = stream.read()
    return newcomer.wait(), output.read_text(), written


def test_a_newcomer_executes_its_code_as_python_does(server: ForkServer, tmp_path: Path) -> None:
    code = f"import os, sys; print(sys.argv, __name__); os.write({STREAM}, b'hello'); sys.exit(7)"
    assert run(server, code, tmp_path) == (7, "['-c'] __main__\n", "hello")
    assert run(server, "1 / 0", tmp_path)[0] == 1
    assert run(server, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)[0] == -signal.SIGKILL


def test_what_it_was_to_print_and_do_at_its_end_happens(server: ForkServer, tmp_path: Path) -> None:
    assert run(server, "import atexit; atexit.register(print, 'last'); print('first')", tmp_path)[1] == "first\nlast\n"


def test_it_is_a_child_with_a_session_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    _, said, _ = run(server, "import os; print(os.getppid(), os.getpid() - os.getsid(0))", tmp_path)
    assert said.split() == [str(os.getpid()), "0"]


def test_it_has_its_environment_folder_cores_and_no_other_descriptors(server: ForkServer, tmp_path: Path) -> None:
    code = "import os; print(dict(os.environ), os.getcwd(), *os.listdir('/proc/self/fd'), len(os.sched_getaffinity(0)))"
    chosen = {min(os.sched_getaffinity(0))}
    run(server, "", tmp_path)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        _, said, _ = run(server, code, tmp_path, ONE="1")
    finally:
        os.sched_setaffinity(0, before)
    # the fourth of them is that of the listing
    assert said == f"{{'ONE': '1'}} {tmp_path} 0 1 2 3 4 1\n"


def test_what_is_to_be_loaded_is_loaded(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("import os; found = os.environ.get('CHOSEN')\nimport msgspec\n")
    (tmp_path / "scipy.py").write_text("import mpi4py.MPI\n")
    loads = Loads({"CHOSEN": "early", "HOME": None}, [str(tmp_path), *sys.path], ["numba", "scipy", "numpy.nowhere"])
    code = "import sys; print(sys.modules['numba'].found, [name in sys.modules for name in ('scipy', 'mpi4py.MPI')])"
    assert run(server, code, tmp_path, loads)[1] == "early [False, False]\n"


BEGUN = """
import json, sys
main = sys.modules["__main__"]
spec = main.__spec__ and main.__spec__.name
print(json.dumps([sys.argv, __name__, vars(main).get("__file__"), spec, sys.path, vars(main) is globals()]))
print("program.kernel" in sys.modules)
"""


@pytest.mark.parametrize("options", [["-m", "program"], ["-m", "program.begun"], ["program/begun.py"], ["-c", BEGUN]])
def test_a_fork_begins_as_the_command_line_says(
    options: list[str], server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program").mkdir()
    for name, text in (("__init__", ""), ("__main__", BEGUN), ("begun", BEGUN), ("kernel", "")):
        (tmp_path / "program" / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    default = subprocess.check_output([sys.executable, "-c", "import sys; print(sys.path)"], text=True, timeout=60)
    monkeypatch.setattr(sys, "path", ast.literal_eval(default))
    words = [sys.executable, *options, *([] if "-c" in options else ["--depth", "it's 3"])]
    alone = subprocess.check_output(words, text=True, timeout=60)
    loads, code = Loads.before(words, ["program.kernel"]), forkserver.execution(words)
    assert loads is not None
    assert code is not None
    said = run(server, code, tmp_path, loads)[1]
    assert json.loads(said.partition("\n")[0]) == json.loads(alone.partition("\n")[0])
    assert (said.split()[-1], alone.split()[-1]) == ("True", "False")


@pytest.mark.parametrize(
    "words", [["sh", "-c", "exit"], [sys.executable, "-u", "one.py"], [sys.executable], ["no such"]]
)
def test_other_programs_are_not_forked(words: list[str]) -> None:
    assert Loads.before(words, []) is None


def test_a_program_that_finds_another_library_is_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "program"]
    assert Loads.before(words, []) is not None
    (tmp_path / "apgas").mkdir()
    (tmp_path / "apgas" / "__init__.py").touch()
    assert Loads.before(words, []) is None
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert Loads.before(words, []) is not None


def test_another_path_needs_another_server(server: ForkServer, ended: list[int], tmp_path: Path) -> None:
    run(server, "", tmp_path)
    first = server.pid
    run(server, "", tmp_path)
    assert server.pid == first
    run(server, "", tmp_path, HERE._replace(path=["/elsewhere", *sys.path]))
    assert server.pid != first
    assert ended == [first]


def test_only_what_the_library_knows_to_be_safe_is_loaded() -> None:
    names = Loads.here({}).modules
    assert "apgas.runtime.process" in names
    assert not [name for name in names if name.startswith(("pytest", "_pytest", "mpi4py", "os"))]
    assert Loads.parse(HERE.text()) == HERE._replace(path=list(sys.path))


def test_newcomers_do_not_draw_the_same_numbers(server: ForkServer, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    loads = HERE._replace(modules=["numpy", "numpy.random", "random"])
    code = "import random, sys; print(random.random(), sys.modules['numpy.random'].random())"
    numbers = [word for _ in range(2) for word in run(server, code, tmp_path, loads)[1].split()]
    assert len(set(numbers)) == 4


def test_there_is_a_server_for_a_host_on_which_newcomers_start_again(server: ForkServer) -> None:
    found = []
    for count in (CORES, CORES, CORES + 1, 1):
        with server.forking(sys.executable, HERE, count) as possible:
            found.append((possible, server.pid > 0))
    assert found == [(False, False), (False, False), (True, True), (True, True)]


def test_a_server_that_is_gone_says_so_and_its_newcomers_go_on(server: ForkServer, tmp_path: Path) -> None:
    with server.forking(sys.executable, HERE, CORES + 1), Path(os.devnull).open("w") as nothing:
        streams = (nothing.fileno(), 2, nothing.fileno())
        newcomer = Forked(server.fork("import time; time.sleep(60)", {}, str(tmp_path), streams))
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"ended|pipe|reset"):
            server.fork("", {}, str(tmp_path), streams)
        assert not server.pid
        with pytest.raises(OSError, match="there is no fork server"):
            server.fork("", {}, str(tmp_path), streams)
    assert newcomer.poll() is None
    os.kill(newcomer.pid, signal.SIGTERM)
    assert newcomer.wait() == -signal.SIGTERM
    assert run(server, "print('again')", tmp_path)[1] == "again\n"


def test_a_server_that_hangs_is_not_waited_for(server: ForkServer, tmp_path: Path) -> None:
    run(server, "", tmp_path)
    assert server._socket is not None
    server._socket.settimeout(0.2)
    hanging = server.pid
    os.kill(hanging, signal.SIGSTOP)
    with server.forking(sys.executable, HERE, 1) as possible:
        assert possible
        with pytest.raises(TimeoutError):
            server.fork("", {}, str(tmp_path), (2, 2, 2))
    assert server.pid not in (0, hanging)


@pytest.mark.parametrize("before", [False, True])
def test_an_answer_that_ctrl_c_has_kept_from_being_heard_is_none_to_the_next_question(
    before: bool, server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it came before the answer, or before the wait for it."""

    def interrupted(*words: Any) -> int:
        if before:
            asks(*words)
        raise KeyboardInterrupt

    run(server, "", tmp_path)
    asks = server._ask
    with monkeypatch.context() as patch:
        patch.setattr(server, "_ask" if before else "_hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(server, "", tmp_path)
    code = "import os; print(os.getpid())"
    with server.forking(sys.executable, HERE, CORES + 1), (tmp_path / "output").open("w") as file:
        newcomer = Forked(server.fork(code, {}, str(tmp_path), (file.fileno(), 2, file.fileno())))
    assert newcomer.wait() == 0
    assert int((tmp_path / "output").read_text()) == newcomer.pid


def test_what_ctrl_c_comes_after_while_modules_are_asked_for_starts_no_process(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that was not waited for was taken for process 0, which means the group of who kills it."""
    run(server, "", tmp_path)
    asks = server._ask

    def interrupted(*words: Any) -> None:
        asks(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server, "_ask", interrupted)
        with pytest.raises(KeyboardInterrupt), server.forking(sys.executable, HERE._replace(modules=["this"]), 1):
            pass
    with server.forking(sys.executable, HERE, CORES + 1) as possible:
        assert possible
        newcomer = Forked(server.fork("", {}, str(tmp_path), (2, 2, 2)))
    assert newcomer.pid > 0
    assert newcomer.wait() == 0


def test_what_a_slow_server_forks_goes_on_if_and_only_if_it_is_known(server: ForkServer, tmp_path: Path) -> None:
    """Another process would begin in its place, with the same stream."""
    known = 0
    begun = tmp_path / "begun"
    begun.touch()
    code = f"import os; open({str(begun)!r}, 'a').write(str(os.getpid()) + ' ')"
    for turn in range(40):
        run(server, "", tmp_path)
        server._socket.settimeout(0.0001 * 1.3**turn)  # type: ignore[union-attr]  # there is one after a run
        with server.forking(sys.executable, HERE, 1) as possible:
            assert possible
            with suppress(OSError):
                known += Forked(server.fork(code, {}, str(tmp_path), (2, 2, 2))).wait() == 0
                server._socket.settimeout(300.0)  # type: ignore[union-attr]  # and as long as it answers
    deadline_s = time.monotonic() + 60
    while len(begun.read_text().split()) < known and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert 0 < known < 40
    time.sleep(0.2)
    assert len(begun.read_text().split()) == known


def test_a_server_ends_without_a_word_when_its_client_has_ended(capfd: pytest.CaptureFixture[str]) -> None:
    processes = []

    def started_here(words: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
        processes.append(started(words, descriptor))
        return processes[-1]

    server = ForkServer(started_here, lambda _: None)
    server.used = True
    with server.forking(sys.executable, HERE, 1):
        pass
    assert server._socket is not None
    select.select([server._socket], [], [], 60)  # it has loaded all, and has said so
    server._socket.close()
    assert processes[0].wait(60) == 0
    assert capfd.readouterr() == ("", "")


class Meanwhile(subprocess.Popen[bytes]):
    """Another thread ends its server, too, just as it ends."""

    server: ForkServer

    def wait(self, timeout: float | None = None) -> int:
        ends = self.returncode is None
        code = super().wait(timeout)
        if ends:
            self.server.close()
        return code


def test_two_threads_may_end_a_server_at_once(ended: list[int]) -> None:
    def start(words: Sequence[str], descriptor: int) -> Meanwhile:
        return Meanwhile(words, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True)

    server = Meanwhile.server = ForkServer(start, ended.append)
    server.used = True
    with server.forking(sys.executable, HERE, 1):
        pass
    pid = server.pid
    server.close()
    assert (ended, server.pid) == ([pid], 0)


def test_few_newcomers_do_not_wait_until_a_server_has_loaded_all(server: ForkServer, tmp_path: Path) -> None:
    go = tmp_path / "go"
    (tmp_path / "numba.py").write_text(
        f"import time\nfrom pathlib import Path\nwhile not Path({str(go)!r}).exists(): time.sleep(0.01)"
    )
    slow = Loads({}, [str(tmp_path), *sys.path], ["numba"])
    server.used = True
    found = []
    for count in (1, 1, CORES + 1, 1):
        if count > 1:
            go.touch()
        with server.forking(sys.executable, slow, count) as possible:
            found.append(possible)
    assert found == [False, False, True, True]


def test_a_folder_that_is_not_there_is_an_error(server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(server, "", tmp_path / "nowhere")


def test_who_has_forked_adopts_no_other_orphans(server: ForkServer, tmp_path: Path) -> None:
    run(server, "", tmp_path)
    orphan = "import os, time; os.fork() and os._exit(0); time.sleep(0.2); print(os.getppid())"
    words = [sys.executable, "-c", orphan]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert int(found.stdout) != os.getpid()


PARENT = """
import os, subprocess, sys, time
from apgas.runtime.forkserver import ForkServer, Loads
def started(words, descriptor):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True)
server = ForkServer(started, print, tied={tied})
with server.forking(sys.executable, Loads.here({{}}), 1000) as possible:
    code = "import os, time; os.write(1, b'runs' + bytes([10])); time.sleep(300)"
    os.write(1, b"%d %d\\n" % (server.fork(code, {{}}, "/", (1, 2, 2)), server.pid))
time.sleep(60)
"""


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_left_when_the_parent_is_killed(tied: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT.format(tied=tied)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        first, second = sorted([parent.stdout.readline(), parent.stdout.readline()])
        assert second == b"runs\n"
        newcomer, server = map(int, first.split())
        parent.kill()
    wait_for_end(server)
    if tied:
        wait_for_end(newcomer)
    else:
        os.kill(newcomer, signal.SIGKILL)


def wait_for_end(pid: int) -> None:
    deadline_s = time.monotonic() + 60
    while identity(pid):
        assert time.monotonic() < deadline_s, f"process {pid} goes on"
        time.sleep(0.01)
