"""A log that is damaged is read as it was written, or refused: bits flip, blocks vanish, files are cut off or gone."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import DaemonConfig, DaemonError, JobRequest
from scheduler_bridge.daemon.storage import restore
from scheduler_bridge.daemon.storage.chain import MARK
from scheduler_bridge.daemon.storage.ledger import VERSION, Ledger
from scheduler_bridge.daemon.storage.log_entries import AnyFact, Entry, Noted, Requested, encode
from scheduler_bridge.daemon.storage.salvage import salvage
from scheduler_bridge.daemon.storage.store import DATABASE, Frozen, Store, StoreError

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
    restored = restore.restore(store, config(folder), 1)
    seq, ledger = restored.next_seq, restored.ledger
    for number, entry in enumerate(entries):
        batch = [entry]
        while batch:
            happened = batch.pop()
            effects = ledger.take(happened)
            frozen = Frozen(seq, VERSION, ledger.freeze()) if number == freeze_at and happened is entry else None
            store.append(restored.number, seq, [encode(happened, effects)], frozen, ledger.next_job_id)
            seq += 1
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
            store.end_era(1, 50)
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
        restored = restore.restore(store, config(folder), 1)
        ledger: Ledger = restored.ledger
        return (
            restored.number, restored.next_seq, restored.origin_s, ledger.next_job_id, ledger.jobs, ledger.kept,
            ledger.core.snapshot(), ledger.recorder.record(),
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
        told = f"damage {number}, of {what} of image {place}"
        try:
            assert restore.read_run(folder) == known[place][1], told
        except DaemonError:
            outcomes["report refused"] += 1
        why = ""
        try:
            assert state(folder) == known[place][0], told
            outcomes["harmless"] += 1
        except DaemonError as error:
            why = str(error)
            outcomes["row named" if "row " in why else "refused"] += 1
        except Exception as error:
            error.add_note(told)
            raise
        if why and number % 4 == 0:
            assert "scheduler" in salvage(folder)[0], told
            assert is_beginning(state(folder), known[place][0]), told
            assert not salvage(folder), told
        shutil.rmtree(folder)
    assert outcomes["harmless"] + outcomes["row named"] + outcomes["refused"] == DAMAGES
    assert min(outcomes.values()) > 50, outcomes


def test_what_is_lost_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    store = Store(folder)
    write(store, folder, happenings(random.Random(1), 9))
    rows = [(seq, row) for seq, row in store.rows(1) if '"requested"' in row.facts]
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


def test_the_damaged_files_are_kept_as_they_were_found(tmp_path: Path) -> None:
    folder = images(tmp_path)[0]
    log = folder / "scheduler.db-wal"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm"}
    assert salvage(folder)
    assert {name: (folder / "damaged-1" / name).read_bytes() for name in files} == files


def test_ids_do_not_go_back_with_a_log_that_could_not_be_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    number = restore.restore(store, config(tmp_path), 1).number
    store.append(number, 1, [encode(Entry(1.0), [])], next_job=3)
    store._base.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match="full"):
        store.append(number, 2, [encode(Entry(2.0, (), (Noted("n" * 10_000),)), [])], next_job=8)
    store.close()  # killed: nothing is known of what was not written, but that ids were given
    assert state(tmp_path)[:2] == (1, 2)
    assert state(tmp_path)[3] == 8
    store = Store(tmp_path)
    store.end_era(number, 3)
    store.close()
    assert state(tmp_path)[3] == 8, "nor in the next run"
