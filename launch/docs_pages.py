"""Pages that mkdocs adds to those in docs: the project's papers, its notebooks, and the modules of the public API.

mkdocs.yml names this file as a hook. Links of the papers, which are written for the project's root, are rewritten.
Where a line is a link to a CSV file and nothing else, the table stands in its place.
"""

from __future__ import annotations

import base64
import csv
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAPERS = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "LICENSE": "project/license.md",
}
"""Where each paper goes in the site."""
API = {
    "apgas": "apgas._public",  # `apgas` itself loads a name when it is first used, which only running it shows
    "apgas.arrays": "apgas.arrays",
    "apgas.futures": "apgas.futures",
    "apgas.testing": "apgas.testing.job",
    "glb": "glb",
    "glb.search": "glb.search",
    "glb.testing": "glb.testing",
    "scheduler_bridge": "scheduler_bridge.simulation",  # it loads a name when it is first used
    "scheduler_bridge.daemon": "scheduler_bridge.daemon",
    "scheduler_bridge.model": "scheduler_bridge.model",
    "scheduler_bridge.policies": "scheduler_bridge.policies",
    "scheduler_bridge.sim": "scheduler_bridge.sim",
    "scheduler_bridge.workloads": "scheduler_bridge.workloads",
    "scheduler_bridge.record": "scheduler_bridge.record",
}
"""The modules of the public API by their names for users, and where mkdocstrings finds what they offer."""


class Docstrings(griffe.Extension):
    """Has the section `Example:` understood as griffe understands `Examples:`, as code with its output."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrites the title in an object's docstring."""
        if obj.path == "apgas._public":
            obj.docstring = None  # that of `apgas` stands there
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for paper, page in PAPERS.items():
        text = (ROOT / paper).read_text(encoding="utf-8")
        text = f"# License\n\n```text\n{text}\n```\n" if paper == "LICENSE" else relinked(text, page)
        if page == "index.md":
            text = "---\nhide: [navigation]\n---\n" + text  # a list of one page
        files.append(File.generated(config, page, content=text))
    for name, module in API.items():
        page = f"# {name}\n\n::: {module}\n"
        if module == "apgas._public":
            page = page.replace(":::", "::: apgas\n    options: {members: false, summary: false}\n\n:::")
        files.append(File.generated(config, f"api/{name}.md", content=page))
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        page = notebook.relative_to(ROOT / "docs").with_suffix("")
        text, pictures = rendered(json.loads(notebook.read_text(encoding="utf-8")), page.name)
        files.append(File.generated(config, f"{page}.md", content=text))
        for name, data in pictures.items():
            files.append(File.generated(config, (page.parent / name).as_posix(), content=data))
    return files


SHORT = 25
"""A table of more rows is closed until a reader opens it."""


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Puts the tables of results, which commands have written, in the place of the links to them."""
    folder = (Path(config.docs_dir) / page.file.src_uri).parent

    def table(link: re.Match[str]) -> str:
        title, file = link[1], link[2]
        rows = list(csv.reader((folder / file).read_text(encoding="utf-8").splitlines()))
        lines = [f"<tr>{''.join(f'<td>{escape(shown(value))}</td>' for value in row)}</tr>" for row in rows]
        lines[0] = lines[0].replace("td>", "th>")
        opened = " open" * (len(rows) <= SHORT)
        summary = f'<summary>{escape(title)} (<a href="{file}">{file}</a>)</summary>'
        body = f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"
        return f'<details{opened}>{summary}<div class="md-typeset__scrollwrap">{body}</div></details>'

    return re.sub(r"^\[([^\]]+)\]\(([\w./-]+\.csv)\)$", table, markdown, flags=re.MULTILINE)


def shown(value: str) -> str:
    """A value of a table for people: what has a fraction, to a hundredth, and from 100 on to a tenth."""
    if not re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", value):
        return value
    return f"{float(value):,.{1 if abs(float(value)) >= 100 else 2}f}"


def rendered(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page, with its pictures by the names of their files."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![What the cell draws]({picture})")
            else:
                text = "".join(data.get("text/plain", output.get("text", ()))).rstrip()
                parts.append(f"```text\n{text}\n```")
    return "\n\n".join([*parts, f"[The notebook itself]({name}.ipynb)"]), pictures


def relinked(text: str, page: str) -> str:
    """A paper's text with its links as the page has to write them."""
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        return f"]({up}{PAPERS.get(path, path.removeprefix('docs/'))}{anchor})"

    return re.sub(r"\]\((?!http|#)([^)#]+)(#[^)]*)?\)", link, text)
