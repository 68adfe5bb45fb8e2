"""A malleable job without any package of this project: wire protocol v2 in plain Python.

It counts primes, with a thread for each of its nodes, whose number grows and shrinks meanwhile. `Scheduler` and `obey`
are the client, `Primes` is the work.

    malleable submit --min 1 --max 4 -- python docs/examples/protocol_client.py {hosts} 1000000
"""

import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time

BLOCK, RECONNECT_S = 500, 60


class Scheduler:
    """The connection to the scheduler that started this process."""

    def __init__(self, nodes):
        self.nodes = nodes  # those that the job runs on
        self.ready = False
        self._outcome = None  # the last one, which may have been lost with its connection
        self._lock = threading.RLock()
        self._connect()

    def _connect(self):
        host, _, port = os.environ["MALLEABLE_SCHEDULER"].rpartition(":")
        self._connection = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
        self._lines = self._connection.makefile("r", encoding="utf-8", newline="\n")
        self.say("hello", version=2, job=int(os.environ["MALLEABLE_JOB"]), token=os.environ["MALLEABLE_TOKEN"])
        answer = json.loads(self._lines.readline() or '{"reason": "no answer"}')
        if answer.get("type") != "welcome":
            print("the scheduler refuses this job:", answer.get("reason"), file=sys.stderr)
            os._exit(1)  # At once, with all threads: the nodes may be someone else's by now.
        self._connection.settimeout(None)

    def say(self, type_, **keys):
        with self._lock:  # One line is one message, also where several threads speak.
            if type_ == "outcome":
                self._outcome = keys
            with contextlib.suppress(OSError):  # The reading thread notices as well, and connects again.
                self._connection.sendall(json.dumps({"type": type_, **keys}).encode() + b"\n")

    def messages(self):
        """Yield what the scheduler says; come back when it was away for a while."""
        while True:
            try:
                for line in self._lines:
                    yield json.loads(line)
            except (OSError, ValueError):
                pass  # Lost: connect again.
            self._return()

    def _return(self):
        until = time.monotonic() + RECONNECT_S
        while time.monotonic() < until:
            time.sleep(0.2)
            with self._lock:
                try:
                    self._connect()
                except OSError:
                    continue  # Not back yet.
                if self.ready:  # What the scheduler has to hear again: see "After a lost connection".
                    self.say("ready", nodes=self.nodes)
                if self._outcome is not None:
                    self.say("outcome", **self._outcome)
                return
        print("the scheduler is gone", file=sys.stderr)
        os._exit(1)


class Primes:
    """The work: blocks of numbers, and a thread per node that takes one after another."""

    def __init__(self, limit):
        self.limit, self.count, self.done, self.total = limit, 0, 0, 0
        self.blocks = queue.SimpleQueue()
        for start in range(0, limit, BLOCK):
            self.blocks.put(start)
            self.total += 1
        self._lock, self._threads = threading.Lock(), {}

    def start(self, node):
        leave = threading.Event()
        thread = threading.Thread(target=self._work, args=(leave,), name=node)
        self._threads[node] = thread, leave
        thread.start()

    def stop(self, nodes):
        """Return when nothing of this job is left on `nodes`."""
        for node in nodes:
            self._threads[node][1].set()
        for node in nodes:
            self._threads.pop(node)[0].join()

    def _work(self, leave):
        while not leave.is_set():
            try:
                start = self.blocks.get_nowait()
            except queue.Empty:
                return
            numbers = range(max(start, 2), min(start + BLOCK, self.limit))
            found = sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in numbers)
            with self._lock:
                self.count, self.done = self.count + found, self.done + 1


def obey(scheduler, work):
    seen = set()
    for order in scheduler.messages():
        if order["type"] not in ("grow", "shrink", "workers") or order["order"] in seen:
            continue  # Withdrawals come too late here; a repeated order was carried out already.
        seen.add(order["order"])
        begun, moved, outcome, reason = time.monotonic(), [], "done", ""
        if order["type"] == "grow" and order.get("nodes"):
            moved = order["nodes"]
            scheduler.nodes = scheduler.nodes + moved
            for node in moved:
                work.start(node)
        elif order["type"] == "shrink" and order["count"] < len(scheduler.nodes):
            wished = [node for node in scheduler.nodes[1:] if node in order.get("nodes", [])]
            others = [node for node in reversed(scheduler.nodes[1:]) if node not in wished]
            moved = (wished + others)[: order["count"]]
            work.stop(moved)  # First: a node is free for others when its outcome arrives.
            scheduler.nodes = [node for node in scheduler.nodes if node not in moved]
        else:
            outcome, reason = "refused", "this program cannot do that"
        seconds = time.monotonic() - begun
        scheduler.say("outcome", order=order["order"], kind=order["type"], outcome=outcome, reason=reason,
                      nodes=moved, seconds=seconds)  # fmt: skip


def main():
    scheduler, work = Scheduler(sys.argv[1].split(",")), Primes(int(sys.argv[2]))
    for node in scheduler.nodes:
        work.start(node)
    scheduler.ready = True
    scheduler.say("ready", nodes=scheduler.nodes)
    threading.Thread(target=obey, args=(scheduler, work), daemon=True).start()
    done = 0
    while done < work.total:
        time.sleep(0.1)
        done = work.done
        scheduler.say("progress", done=done, total=work.total, unit="blocks")
    scheduler.say("disable")
    print(work.count, "primes below", work.limit)


if __name__ == "__main__":
    main()
