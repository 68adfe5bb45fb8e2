"""A job that says and writes every control character: no other user's terminal, the log, tables or pages get one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from support import PATIENCE_S, hostile

PROGRAM = """
import json, os, socket, sys, time
from pathlib import Path

text = Path(sys.argv[1]).read_bytes().decode()
host, _, port = os.environ["MALLEABLE_SCHEDULER"].rpartition(":")
connection = socket.create_connection((host, int(port)))
lines = connection.makefile("rb")

def say(**message):
    connection.sendall(json.dumps(message).encode() + b"\\n")

say(type="hello", version=2, job=int(os.environ["MALLEABLE_JOB"]), token=os.environ["MALLEABLE_TOKEN"])
lines.readline()
say(type="ready", nodes=["node1"])
for at in range(0, len(text), 40):
    say(type="progress", done=1.0, unit=text[at:at + 40])
say(type=text[:60])
lines.readline()
Path(sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.02)
Path(os.environ["MALLEABLE_RESULT"]).write_text(json.dumps({"result": {text: text}, "verified": False}))
sys.stderr.buffer.write(text.encode())
sys.exit(1)
"""


def test_nothing_of_it_reaches_others(tmp_path: Path) -> None:
    state, ready, go = tmp_path / "state", tmp_path / "ready", tmp_path / "go"
    (tmp_path / "text").write_text(hostile.text(), encoding="utf-8", newline="")
    (tmp_path / "job.py").write_text(PROGRAM)
    serving = subprocess.Popen(
        [sys.executable, "-m", "scheduler_bridge.cli", "serve", "--state", str(state), "--nodes", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        serving.stdout.readline()
        submit = ["submit", "--launch", "direct", "--", sys.executable, str(tmp_path / "job.py")]
        _malleable(state, *submit, *map(str, (tmp_path / "text", ready, go)))
        _wait_for(ready, serving)
        shown = [_malleable(state, *words) for words in (["queue"], ["queue", "--json"], ["explain", "1"])]
        go.touch()
        while "exit status 1" not in (said := _malleable(state, "explain", "1", "--json")):
            assert "completed" not in said
        shown += [said]
        page = tmp_path / "page.html"
        for words in (["explain", "1"], ["queue", "--all"], ["report", "--html", str(page)], ["report", "--json"]):
            shown.append(_malleable(state, *words))
        assert "exit status 1" in shown[-1]
        shown += [_malleable(state, "report", "--users", "--csv"), page.read_text(encoding="utf-8")]
    finally:
        serving.terminate()
        _, log = serving.communicate(timeout=PATIENCE_S)
    assert "is refused a message" in log
    for text in (*shown, log):
        hostile.assert_harmless(text)


def _malleable(state: Path, *words: str) -> str:
    command = [sys.executable, "-m", "scheduler_bridge.cli", *words]
    done = subprocess.run(
        command, env={**os.environ, "MALLEABLE_STATE": str(state)}, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _wait_for(path: Path, serving: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert serving.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
