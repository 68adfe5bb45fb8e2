"""Full disks: a clear line says what could not be written, and what could be done is done."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from support import Completed, Leftovers, start_job
from support.mpi import BIN, ROOT

HELLO = ROOT / "docs" / "examples" / "hello.py"
PI = [BIN / "mpiexec", "-n", "2", sys.executable, "-m", "benchmarks.pi", "--samples", "1e6", "--workers", "1"]
FILL = "head -c 1000000 /dev/zero > fill 2> /dev/null"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that `run` mounts a tiny disk on, in a mount namespace of its own."""
    with start_job(_unshared("true")) as job:
        able = job.wait().rc == 0
    if not able:
        pytest.skip("this user can mount nothing here")
    return tmp_path


def _unshared(script: str) -> list[str]:
    return ["unshare", *(["-m"] if os.geteuid() == 0 else ["-rm"]), "sh", "-c", script]


def run(folder: Path, script: str, leftovers: Leftovers) -> Completed:
    """Run a shell script on a disk of 256 KiB."""
    mount = f"mount -t tmpfs -o size=256k none {folder} || exit 1\ncd {folder} || exit 1\n{script}"
    with start_job(_unshared(mount)) as job:
        done = job.wait()
        leftovers.check(job.mark)
    return done


def words(*command: object) -> str:
    return shlex.join(map(str, command))


def test_a_timeline_that_finds_no_room_costs_one_line(folder: Path, leftovers: Leftovers) -> None:
    quiet = "import apgas\ndef main():\n apgas.trace('t.json')\n print('done', flush=True)\napgas.run(main)"
    done = run(folder, f"{FILL}; {words(BIN / 'mpiexec', '-n', 2, sys.executable, '-c', quiet)}; ls", leftovers)
    assert done.out.splitlines() == ["done", "fill"], done
    assert done.err.splitlines() == [f"apgas: the timeline {folder}/t.json cannot be written: No space left on device"]


def test_a_result_that_finds_no_room_is_refused_before_the_run(folder: Path, leftovers: Leftovers) -> None:
    done = run(folder, f"{FILL}; cd {ROOT}; {words(*PI, '--json', folder / 'r.json')}", leftovers)
    assert done.rc == 2, done
    assert "cannot write it: No space left on device" in done.err
    assert "Traceback" not in done.err


def test_output_that_finds_no_room_ends_the_job(leftovers: Leftovers) -> None:
    with start_job(["sh", "-c", words(BIN / "mpiexec", "-n", 2, sys.executable, HELLO) + " > /dev/full"]) as job:
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc != 0
    assert "No space left on device" in done.err
    assert "Traceback" not in done.err


def test_a_scheduler_goes_on_when_its_disk_is_full(folder: Path, leftovers: Leftovers) -> None:
    malleable = words(sys.executable, "-m", "scheduler_bridge.cli")
    fill = f"until test -e go; do sleep 0.05; done; {FILL}; cat fill fill fill"
    script = f"""
        {malleable} serve --nodes 1 --state state > serve.out & daemon=$!
        until grep -q ready serve.out; do sleep 0.05; done
        {malleable} submit --state state --launch direct -- sh -c '{fill}'
        {malleable} submit --state state --launch direct -- sh -c 'exit 0'
        touch go
        until {malleable} queue --state state --json > {folder}.queue && ! grep -q -e pending -e running {folder}.queue
        do sleep 0.1; done
        {malleable} submit --state state --launch direct -- sh -c 'exit 0'; echo refused $?
        {malleable} report --state state --json > {folder}.report
        kill -TERM $daemon; wait $daemon; echo served $?
    """
    done = run(folder, script, leftovers)
    assert "Traceback" not in done.err, done.err
    assert "served 1" in done.out, done
    assert "No space left on device" in done.err
    jobs = json.loads(Path(f"{folder}.report").read_text(encoding="utf-8"))["jobs"]
    assert [job["state"] for job in jobs][1:] == ["completed"], jobs
    # what could not be kept is not taken
    assert "refused 2" in done.out, done
    assert "no job is taken now: the log cannot be written" in done.err


GROWING = """
import os, time, apgas
from apgas.testing.handlers import ReleaseNewest
def fill():
    file = os.open("/dev/shm/filling", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError:
        pass
def main():
    fill()
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:+1")
    while not apgas.resizes():
        time.sleep(0.01)
    print(*(record.reason for record in apgas.resizes()), apgas.at(apgas.places()[-1], os.getpid) > 0, flush=True)
apgas.run(main)
"""


@pytest.mark.usefixtures("folder")
def test_shared_memory_that_others_fill_keeps_a_job_from_growing_and_from_beginning(leftovers: Leftovers) -> None:
    program = words(BIN / "mpiexec", "-n", 2, sys.executable, "-c", GROWING)
    with start_job(_unshared(f"mount -t tmpfs -o size=4m none /dev/shm || exit 9\n{program} && {program}")) as job:
        done = job.wait()
        leftovers.check(job.mark)
    (line,) = done.out.splitlines()
    assert line.startswith("/dev/shm has 4.00 MiB, 0.00 MiB of them free"), done
    assert line.endswith("True")
    assert done.rc not in (0, 9)
    assert "MiB of them free, and MPI needs 2.03 MiB for 2 places on a machine" in done.err
