"""Executors in the cells of a notebook: a real kernel runs them."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from support import PATIENCE_S, ROOT, Leftovers
from support.leftovers import MARK, living, patiently

pytestmark = pytest.mark.essential

IMPORTS = """
import time
from apgas.futures import MalleableExecutor

def square(number):
    return number * number
"""


class Notebook:
    """A kernel whose processes carry a mark."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.kernel = KernelManager(kernel_name="python3")
        self.kernel.start_kernel(env={**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT)})
        self.client: BlockingKernelClient = self.kernel.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)
        self.alone = living(self.mark)

    def cell(self, code: str, *, interrupt_after: str = "") -> list[dict[str, Any]]:
        """Run a cell to its end; interrupt it when it has printed something."""
        request = self.client.execute(code)
        outputs: list[dict[str, Any]] = []
        until = time.monotonic() + PATIENCE_S
        while True:
            message = self.client.get_iopub_msg(timeout=until - time.monotonic())
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return outputs
            if message["msg_type"] != "status":
                outputs.append({"type": message["msg_type"], **content})
            if interrupt_after and interrupt_after in str(content.get("text")):
                self.kernel.interrupt_kernel()

    def value(self, code: str) -> str:
        """What the last line of a cell gives."""
        outputs = self.cell(code)
        assert outputs[-1]["type"] == "execute_result", outputs
        text: str = outputs[-1]["data"]["text/plain"]
        return text

    def error(self, code: str, *, interrupt_after: str = "") -> str:
        """The name of the exception that ends a cell."""
        outputs = self.cell(code, interrupt_after=interrupt_after)
        assert outputs, "it gave nothing"
        assert outputs[-1]["type"] == "error", outputs
        name: str = outputs[-1]["ename"]
        return name

    def others(self) -> dict[int, str]:
        """Its processes beside those that it began with, and their command lines."""
        return {pid: line for pid, line in living(self.mark).items() if pid not in self.alone}


@pytest.fixture
def notebook(leftovers: Leftovers) -> Iterator[Notebook]:
    """Ends its kernel afterwards, and looks for what was left behind."""
    found = Notebook()
    try:
        yield found
        found.client.shutdown()
        found.kernel.finish_shutdown(waittime=PATIENCE_S)
        leftovers.check(found.mark)
    finally:
        found.client.stop_channels()
        found.kernel.shutdown_kernel(now=True)
        found.kernel.cleanup_resources()


def nothing_is_left(notebook: Notebook) -> None:
    assert not patiently(notebook.others)


def test_cells_open_use_close_and_open_again(notebook: Notebook) -> None:
    notebook.cell(IMPORTS)
    for places in (2, 1):
        notebook.cell(f"executor = MalleableExecutor({places})")
        assert notebook.value("list(executor.map(square, range(5)))") == "[0, 1, 4, 9, 16]"
        assert len(notebook.others()) >= places
        notebook.cell("executor.shutdown()")
        nothing_is_left(notebook)


def test_an_executor_goes_on_when_a_cell_that_uses_it_is_interrupted(notebook: Notebook) -> None:
    notebook.cell(IMPORTS + "executor = MalleableExecutor(1)")
    notebook.cell("import os, tempfile\npipe = tempfile.mktemp()\nos.mkfifo(pipe)\nwaits = executor.submit(open, pipe)")
    assert notebook.error("print('begun', flush=True)\nwaits.result()", interrupt_after="begun") == "KeyboardInterrupt"
    # the task goes on until it is allowed to end, and then the next one runs
    notebook.cell("following = executor.submit(square, 6)\nopen(pipe, 'w').close()\nos.unlink(pipe)")
    assert notebook.value("following.result()") == "36"
    notebook.cell("executor.shutdown()")
    nothing_is_left(notebook)


def test_an_interrupt_ends_a_block_and_all_that_it_has_started(notebook: Notebook) -> None:
    notebook.cell(IMPORTS)
    block = """
with MalleableExecutor(2) as executor:
    futures = [executor.submit(time.sleep, 3600) for _ in range(2)]
    print("begun", flush=True)
    futures[0].result()
"""
    assert notebook.error(block, interrupt_after="begun") == "KeyboardInterrupt"
    nothing_is_left(notebook)
    assert notebook.value("with MalleableExecutor(1) as again: print(again.submit(square, 7).result())\n0") == "0"
    nothing_is_left(notebook)


def test_an_interrupt_ends_a_shutdown_that_waits(notebook: Notebook) -> None:
    # without flush, which would wait for what brings the interrupt, and be what is interrupted
    notebook.cell(IMPORTS + "executor = MalleableExecutor(2)\nfuture = executor.submit(time.sleep, 3600)")
    assert notebook.error("print('begun')\nexecutor.shutdown()", interrupt_after="begun") == "KeyboardInterrupt"
    assert "interrupted" in notebook.value("future.exception(60)")
    nothing_is_left(notebook)


def test_an_interrupt_while_it_is_opened_leaves_nothing(notebook: Notebook) -> None:
    notebook.cell(IMPORTS)
    # whatever it does at that time
    for wait_s in (0.0, 0.1, 0.2, 0.4):
        opens = f"""
import signal, threading
executor = None
threading.Timer({wait_s}, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
executor = MalleableExecutor(2)
time.sleep(3600)
"""
        assert notebook.error(opens) == "KeyboardInterrupt"
        notebook.cell("if executor is not None: executor.shutdown()")
        nothing_is_left(notebook)
        assert (
            notebook.value("with MalleableExecutor(1) as again: found = again.submit(square, 7).result()\nfound")
            == "49"
        )


def test_a_kernel_that_ends_with_an_open_executor_leaves_nothing(notebook: Notebook) -> None:
    notebook.cell(IMPORTS + "executor = MalleableExecutor(2)")
    assert notebook.value("executor.submit(square, 3).result()") == "9"


def test_progress_is_shown_in_one_place(notebook: Notebook) -> None:
    notebook.cell(IMPORTS)
    code = "with MalleableExecutor(2) as executor: list(executor.map(square, range(500), progress=True))"
    outputs = notebook.cell(code)
    first, *updates = [output for output in outputs if "display" in output["type"]]
    assert first["type"] == "display_data"
    assert {update["type"] for update in updates} == {"update_display_data"}
    assert {update["transient"]["display_id"] for update in updates} == {first["transient"]["display_id"]}
    assert "500 of 500 done · " in updates[-1]["data"]["text/plain"]
    assert "500 of 500 done · " in updates[-1]["data"]["text/html"]
    assert [output["type"] for output in outputs if "display" not in output["type"]] == ["execute_input"], outputs
