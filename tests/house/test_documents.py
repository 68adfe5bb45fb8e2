"""The documentation holds together: its links lead somewhere, and it stays a small number of pages."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from support import ROOT

PAPERS = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> list[str]:
    """The anchors that GitHub and mkdocs make of a document's headings."""
    titles = re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles]


@pytest.mark.parametrize("document", [*PAPERS, *PAGES])
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    broken = []
    for link in re.findall(r"\]\((?!http)([^)]+)\)", prose(path)):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("document", sorted({*PAPERS, *PAGES} - {"CHANGELOG.md"}))  # which names what is gone
def test_files_and_modules_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = re.findall(r"\b((?:apgas|glb|scheduler_bridge|benchmarks|tests|launch)/[\w./*-]*)", text)
    assert [path for path in paths if not list(ROOT.glob(path.rstrip(".")))] == []
    names = re.findall(r"python -m ((?:apgas|glb|scheduler_bridge|benchmarks)(?:\.\w+)*)", text)
    folders = [ROOT / name.replace("apgas.benchmarks", "benchmarks").replace(".", "/") for name in names]
    assert [folder for folder in folders if not folder.is_dir() and not folder.with_suffix(".py").exists()] == []


@pytest.mark.parametrize("document", [*PAPERS, *PAGES])
def test_no_two_headings_of_a_document_share_an_anchor(document: str) -> None:
    found = anchors(ROOT / document)
    assert len(found) == len(set(found))


def test_the_documentation_has_few_pages() -> None:
    assert len(PAGES) <= 25
    assert {Path(page).parts[1] for page in PAGES} == {"tutorials", "how-to", "reference", "explanation", "results"}


def test_every_page_and_module_of_the_api_is_in_the_site() -> None:
    """The strict build of the site finds this, too, but takes an environment of its own."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if page.removeprefix("docs/") not in site] == []
    hook = ast.parse((ROOT / "launch" / "docs_pages.py").read_text(encoding="utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in hook.body if isinstance(node, ast.Assign)}
    api: dict[str, str] = ast.literal_eval(assigned["API"])
    assert sorted(re.findall(r"- api/([\w.]+)\.md", site)) == sorted(api)
    for module in api.values():
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), module


def paths_in_the_tree(block: str) -> list[str]:
    """The paths of a tree of folders: each line begins with a name, below the folder that is less indented."""
    folders: list[str] = []
    found = []
    for line in block.splitlines():
        name = line.split()[0]
        del folders[(len(line) - len(line.lstrip())) // 2 :]
        folders.append(name.rstrip("/"))
        found.append("/".join(folders))
    return found


def defines(path: Path, name: str) -> bool:
    """Whether a module defines a class, a function, or a method of a class."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        inside = [
            node
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == part
        ]
        if not inside:
            return False
        nodes = inside[-1].body
    return True


def test_all_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text.split("```")[1].strip("\n")
    named = [*paths_in_the_tree(tree), *re.findall(r"`([\w/.-]+/[\w/.-]*)`", text)]
    assert [path for path in named if not (ROOT / path.removeprefix("./")).exists()] == []
    symbols = re.findall(r"`([\w/]+/\w+\.py)::([\w.]+)`", text)
    assert len(symbols) > 20
    assert [(file, name) for file, name in symbols if not defines(ROOT / file, name)] == []


RESULTS = ROOT / "docs" / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/results.json"))
KEPT = ("results.json", "report.html", "records.tar.xz", "cells-full.csv")
"""What lies beside the files of a report; the page is not kept in the repository."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_results_are_the_files_that_their_command_wrote(folder: str) -> None:
    note = json.loads((RESULTS / folder / "results.json").read_text(encoding="utf-8"))
    there = {path.name for path in (RESULTS / folder).iterdir()}
    assert {*note["files"], *KEPT} == there | set(KEPT)
    assert f" --out docs/results/{folder}" in note["command"]
    assert note["from"]["unchanged"] is True
    if note["claims"]:
        with (RESULTS / folder / "claims.csv").open(encoding="utf-8", newline="") as file:
            assert Counter(row["verdict"] for row in csv.DictReader(file)) == note["claims"]


def test_the_page_counts_the_claims_as_the_results_do() -> None:
    text = (RESULTS / "simulations.md").read_text(encoding="utf-8")
    counted = re.findall(r"\]\(([\w-]+)/results\.json\) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    notes = {folder: json.loads((RESULTS / folder / "results.json").read_text(encoding="utf-8")) for folder in FOLDERS}
    claims = {folder: note["claims"] for folder, note in notes.items() if note["claims"]}
    found = {}
    for folder, known in claims.items():
        words = [known.get(word, 0) for word in ("held", "right direction", "differs")]
        found[folder] = [sum(words), *words]
    assert {folder: list(map(int, numbers)) for folder, *numbers in counted} == found


def test_the_papers_are_short() -> None:
    lines = {paper: len((ROOT / paper).read_text(encoding="utf-8").splitlines()) for paper in PAPERS}
    assert lines["README.md"] <= 100
    assert lines["ARCHITECTURE.md"] <= 250
