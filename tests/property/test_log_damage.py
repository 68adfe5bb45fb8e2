"""A log that is damaged is read as it was written, or refused: bits flip, blocks vanish, files are cut off or gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S
from support.logged import encode

from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import DaemonConfig, DaemonError, DaemonThread, JobRequest
from scheduler_bridge.daemon.storage import restore
from scheduler_bridge.daemon.storage.chain import MARK, DamagedError
from scheduler_bridge.daemon.storage.journal import Journal
from scheduler_bridge.daemon.storage.log_entries import AnyFact, Entry, Noted, Requested
from scheduler_bridge.daemon.storage.log_state import VERSION
from scheduler_bridge.daemon.storage.salvage import finish_salvage, salvage
from scheduler_bridge.daemon.storage.store import DATABASE, Store, StoreError

DAMAGES = 2000
FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", MARK)


def config(folder: Path) -> DaemonConfig:
    return DaemonConfig(("a", "b", "c"), state_dir=folder, policy="easy")


def happenings(rng: random.Random, jobs: int, first: int = 1) -> list[Entry]:
    """Return entries in which jobs come, start and end, and something is said."""
    found: list[Entry] = []
    for job_id in range(first, first + jobs):
        request = JobRequest(name=f"job-{job_id}", command=("x", "y" * rng.randrange(300)), nodes=rng.randint(1, 3))
        at_s = float(10 * job_id)
        facts: list[AnyFact] = [Requested(job_id, request, admitted=1)]
        found.append(Entry(at_s, (), tuple(facts)))
        found.append(Entry(at_s + 1, (), (Noted("n" * rng.randrange(2000)),)))
    return found


def write(store: Store, folder: Path, entries: list[Entry], *, freeze_at: int = -1) -> None:
    """Write entries, and what the jobs that start do, as a daemon would."""
    log_state, _ = restore.restore(store, config(folder), 1)
    for number, entry in enumerate(entries):
        batch = [entry]
        while batch:
            happened = batch.pop()
            effects = log_state.take(happened)
            frozen = (VERSION, log_state.freeze()) if number == freeze_at and happened is entry else None
            store.append([replace(encode(happened, effects), frozen=frozen)], log_state.next_job_id)
            for effect in effects:
                if isinstance(effect, ev.StartJob) and effect.job_id % 3:  # the others are still starting
                    batch.append(Entry(happened.at_s + 0.5, (ev.JobStarted(effect.job_id),)))
                    if effect.job_id % 3 == 1:
                        batch.insert(0, Entry(happened.at_s + 0.6, (ev.JobEnded(effect.job_id, "completed"),)))


def killed(folder: Path, image: Path) -> Callable[[Store], None]:
    """Return what leaves the files of ``folder`` in ``image`` as a scheduler that is killed leaves them."""

    def die(store: Store) -> None:
        shutil.copytree(folder, image)
        store.close()

    return die


def images(tmp_path: Path) -> list[Path]:
    """Return state folders of killed schedulers: all in the write-ahead log, parts of it, and behind a snapshot."""
    made = []
    for number, (folded, freeze_at) in enumerate(((False, -1), (True, -1), (True, 9), (False, 9))):
        folder, image = tmp_path / f"live-{number}", tmp_path / f"image-{number}"
        folder.mkdir()
        entries = happenings(random.Random(number), 9)
        if number == 3:  # an era that ended well is before it
            store = Store(folder)
            write(store, folder, entries[:6])
            store.end_era(50)
            store.close()
            entries = happenings(random.Random(number), 9, first=50)
        store = Store(folder)
        if folded:
            write(store, folder, entries[:12], freeze_at=freeze_at)
            store.close()
            store = Store(folder)
            write(store, folder, entries[12:])
        else:
            write(store, folder, entries, freeze_at=freeze_at)
        killed(folder, image)(store)
        made.append(image)
    return made


def state(folder: Path) -> tuple[Any, ...]:
    """Return what a scheduler that takes the folder up knows."""
    store = Store(folder)
    try:
        log_state, _ = restore.restore(store, config(folder), 1)
        return (
            len(store.eras()), store.last_seq() + 1, log_state.booted,
            log_state.next_job_id, log_state.jobs, log_state.kept,
            log_state.core.snapshot(), log_state.recorder.record(),
        )  # fmt: skip
    finally:
        store.close()


def damage(rng: random.Random, folder: Path) -> str:
    """Damage a file in some way; return what was done."""
    path = folder / rng.choice([name for name in FILES if (folder / name).exists()])
    content = bytearray(path.read_bytes())
    size = len(content)
    match rng.choice(("flip", "flip", "flip", "bytes", "block", "cut", "cut", "gone", "header")):
        case "cut":
            content = content[: rng.randrange(size)] if size else content
        case "gone":
            path.unlink()
            return f"{path.name} is gone"
        case "block" if size:
            at = rng.randrange(size) // 512 * 512
            content[at : at + 512] = bytes(len(content[at : at + 512]))
        case "bytes" if size:
            at = rng.randrange(size)
            content[at : at + 8] = rng.randbytes(len(content[at : at + 8]))
        case "header" if size:
            content[rng.randrange(min(size, 120))] ^= 1 << rng.randrange(8)
        case "flip" if size:
            content[rng.randrange(size)] ^= 1 << rng.randrange(8)
        case _:
            pass
    path.write_bytes(content)
    return path.name


def is_beginning(salvaged: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    """Whether a state is one that the log went through, or a new one behind it; no id is given twice."""
    if salvaged[0] != whole[0]:
        return not salvaged[4]
    names = {job.job_id: job.name for job in whole[7].jobs}
    return bool(
        salvaged[1] <= whole[1]
        and all(names[job.job_id] == job.name for job in salvaged[7].jobs)
        and set(salvaged[4]) <= set(names)
    )


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: every damaged log is synchronised several times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_no_damage_is_read_as_something_else(memory: Path) -> None:
    before = images(memory)
    folder = memory / "damaged"
    known = []
    for image in before:
        shutil.copytree(image, folder)
        record = restore.read_run(folder)
        known.append((state(folder), record))
        shutil.rmtree(folder)
    outcomes: Counter[str] = Counter()
    for number in range(DAMAGES):
        rng = random.Random(number)
        place = rng.randrange(len(before))
        shutil.copytree(before[place], folder)
        what = damage(rng, folder)
        case = f"damage {number}, of {what} of image {place}"
        try:
            assert restore.read_run(folder) == known[place][1], case
        except DaemonError:
            outcomes["report refused"] += 1
        why = ""
        try:
            assert state(folder) == known[place][0], case
            outcomes["harmless"] += 1
        except DaemonError as error:
            why = str(error)
            outcomes["row named" if "row " in why else "refused"] += 1
        except Exception as error:
            error.add_note(case)
            raise
        if why and number % 4 == 0:
            assert "scheduler" in salvage(folder)[0], case
            assert is_beginning(state(folder), known[place][0]), case
            assert not salvage(folder), case
        shutil.rmtree(folder)
    assert outcomes["harmless"] + outcomes["row named"] + outcomes["refused"] == DAMAGES
    assert min(outcomes.values()) > 50, outcomes


def test_no_power_loss_after_a_quiet_second_hides_a_cut(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is written with each row, but on the disk only a second later."""
    folder, image = memory / "live", memory / "image"
    folder.mkdir()
    on_disk = b""

    def fdatasync(file: int) -> None:
        nonlocal on_disk
        on_disk = os.pread(file, 10_000, 0)

    monkeypatch.setattr(os, "fdatasync", fdatasync)

    async def play() -> None:
        log_state, _ = restore.restore(store, config(folder), 1)
        journal = Journal(store, lambda _: None)
        for entry in happenings(random.Random(1), 9):
            journal.add(encode(entry, log_state.take(entry)))
            assert not await journal.settled()
        async with asyncio.timeout(PATIENCE_S):
            while on_disk != (folder / MARK).read_bytes():
                await asyncio.sleep(0.01)
        shutil.copytree(folder, image)
        await journal.close()

    store = Store(folder)
    asyncio.run(play())
    store.close()
    (image / MARK).write_bytes(on_disk)
    log = (image / f"{DATABASE}-wal").read_bytes()
    for cut in range(0, len(log), 997):
        shutil.copytree(image, memory / "cut")
        (memory / "cut" / f"{DATABASE}-wal").write_bytes(log[:cut])
        with pytest.raises(DaemonError, match=r"missing|lacks|empty"):
            state(memory / "cut")
        shutil.rmtree(memory / "cut")


def test_what_is_lost_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    store = Store(folder)
    write(store, folder, happenings(random.Random(1), 9))
    rows = [(seq, row) for seq, row in store.rows(store.eras()[0]) if '"requested"' in row.facts]
    (bad, _), last = rows[6], store.last_seq()
    store._base.execute("UPDATE entries SET at_s = at_s + 1 WHERE seq = ?", (bad,))
    store.close()
    with pytest.raises(DaemonError, match=rf"row {bad} of .* is damaged: it is not what was written") as caught:
        state(folder)
    assert "malleable serve --salvage" in caught.value.hint
    first, kept, *lines = salvage(folder)
    assert first == str(caught.value)
    assert kept == f"the damaged log is kept in {folder}/damaged-1"
    assert lines[0] == f"rows {bad} to {last} are lost"
    assert [line for line in lines if "submission" in line] == [
        f"lost: the submission of job {job_id}, job-{job_id}" for job_id in (7, 8, 9)
    ]
    assert lines[-1].startswith("job ids go on at 10")
    number, next_seq, _, next_job, jobs, *_ = state(folder)
    assert (number, next_seq, next_job) == (1, bad, 10)
    assert 7 not in jobs
    assert salvage(folder) == []


def test_what_a_restart_does_not_read_costs_nothing_else(tmp_path: Path) -> None:
    """A row before the snapshot is damaged, and one behind it."""
    folder = images(tmp_path)[2]
    store = Store(folder)
    frozen = store.snapshot(store.eras()[0])
    assert frozen is not None
    assert 2 < frozen.seq < store.last_seq() - 1
    last = store.last_seq()
    store.close()
    with contextlib.closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as base:
        base.execute("UPDATE entries SET at_s = at_s + 1 WHERE seq IN (2, ?)", (last,))
    assert salvage(folder)[2] == f"rows {last} to {last} are lost"
    assert state(folder)[1] == last


def test_the_damaged_files_are_kept_as_they_were_found(tmp_path: Path) -> None:
    folder = images(tmp_path)[0]
    log = folder / "scheduler.db-wal"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm"}
    assert salvage(folder)
    assert {name: (folder / "damaged-1" / name).read_bytes() for name in files} == files


def contents(folder: Path) -> dict[str, bytes]:
    """Return the log's files as they are, but for SQLite's index of its write-ahead log, which it makes anew."""
    return {name: path.read_bytes() for name in FILES if (path := folder / name).exists() and "shm" not in name}


@pytest.mark.parametrize("place", range(4))
def test_a_log_that_is_refused_stays_as_it_is(tmp_path: Path, place: int) -> None:
    image, folder = images(tmp_path)[place], tmp_path / "refused"
    for number in range(40):
        shutil.copytree(image, folder)
        damage(random.Random(number), folder)
        before = contents(folder)
        with contextlib.suppress(DaemonError):
            state(folder)
            shutil.rmtree(folder)
            continue
        assert contents(folder) == before, number
        shutil.rmtree(folder)


def test_a_daemon_that_refuses_a_log_leaves_all_that_could_be_salvaged(tmp_path: Path) -> None:
    folder = images(tmp_path)[0]
    log = folder / "scheduler.db-wal"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) * 3 // 4] ^= 1
    log.write_bytes(damaged)
    before = contents(folder)
    shutil.copytree(folder, tmp_path / "other")
    for _ in range(2):
        with pytest.raises(DaemonError, match=r"row .* is missing"):
            DaemonThread(config(folder))
        assert contents(folder) == before
    assert salvage(folder)[2:] == salvage(tmp_path / "other")[2:]


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "gone"])
def test_of_a_database_that_is_lost_the_write_ahead_log_is_left_and_salvaged(tmp_path: Path, empty: bool) -> None:
    image, folder = images(tmp_path)[0], tmp_path / "lost"
    shutil.copytree(image, folder)
    (folder / DATABASE).unlink()
    if empty:
        (folder / DATABASE).touch()
    before = contents(folder)
    for look in (restore.read_run, restore.runs, state):
        with pytest.raises(DamagedError):
            look(folder)
        assert contents(folder) == before
    rows = state(image)[1] - 1
    assert salvage(folder)[2] == f"all {rows} rows are kept"
    assert state(folder) == state(image)
    assert contents(folder / "damaged-1").items() >= (before.items() - {(DATABASE, b"")})


def test_a_salvage_that_fails_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "lost"
    shutil.copytree(images(tmp_path)[0], folder)
    (folder / MARK).unlink()
    (folder / MARK).mkdir()
    before = sorted(folder.iterdir())
    with pytest.raises(DaemonError, match="cannot be salvaged"):
        salvage(folder)
    assert sorted(folder.iterdir()) == before


def deadly(step: int, folder: Path) -> int:
    """Salvage in a process that is killed before its ``step``-th call that is about a file; return its status."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    left = step

    def die(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.copyfile", "open", "sqlite3.connect"):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(die)
        salvage(folder)
        os._exit(0)
    finally:
        os._exit(1)


def test_a_salvage_that_is_killed_at_any_step_leaves_the_old_log_or_the_new_one(memory: Path) -> None:
    image, folder, whole = images(memory)[1], memory / "killed", memory / "whole"
    log = image / "scheduler.db-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 3 // 4])
    before = contents(image)
    shutil.copytree(image, whole)
    lost, new = salvage(whole)[2:], state(whole)
    found: Counter[str] = Counter()
    for step in count(1):
        shutil.copytree(image, folder)
        status = deadly(step, folder)
        if not status:
            break
        assert status == signal.SIGKILL
        finish_salvage(folder)  # as each daemon begins
        if contents(folder) == before:
            with pytest.raises(DaemonError, match=r"row .* is missing"):
                state(folder)
            assert salvage(folder)[2:] == lost, step
            found["old"] += 1
        else:
            found["new"] += 1
        assert state(folder)[:2] + state(folder)[3:] == new[:2] + new[3:], step
        assert contents(folder / "damaged-1") == before
        assert {path.name for path in folder.iterdir()} <= {*FILES, "damaged-1", "damaged-2"}
        shutil.rmtree(folder)
    assert min(found["old"], found["new"]) > 5, found


def test_ids_do_not_go_back_with_a_log_that_could_not_be_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    restore.restore(store, config(tmp_path), 1)
    store.append([encode(Entry(1.0), [])], next_job=3)
    store._base.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match="full"):
        store.append([encode(Entry(2.0, (), (Noted("n" * 10_000),)), [])], next_job=8)
    store.close()  # killed: nothing is known of what was not written, but that ids were given
    assert state(tmp_path)[:2] == (1, 3)
    assert state(tmp_path)[3] == 8
    store = Store(tmp_path)
    store.end_era(3)
    store.close()
    assert state(tmp_path)[3] == 8, "nor in the next run"
