"""Shortens pip's output to why it failed and what to do."""

from __future__ import annotations

import re
from typing import NamedTuple


class Failure(NamedTuple):
    """A kind of failure, known by what pip writes about it; `{what}` is the package that the pattern captured."""

    pattern: str
    why: str
    remedy: str


# The first that matches is shown.
FAILURES = (
    Failure(
        r"No space left on device|Errno 28",
        "the disk is full",
        "free about 1.2 GB, or name another place: MALLEABLE_VENV=/elsewhere/venv",
    ),
    Failure(
        r"Read-only file system|Permission denied|Errno 13|Errno 30",
        "the environment, or pip's cache or temporary folder, cannot be written",
        "make it writable, or name another place: MALLEABLE_VENV=/elsewhere/venv",
    ),
    Failure(
        r"SSLError|CERTIFICATE_VERIFY_FAILED",
        "the package index's certificate is not trusted",
        "point pip at your site's certificate: PIP_CERT=/path/ca.pem",
    ),
    Failure(
        r"name resolution|Name or service not known|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError"
        r"|Network is unreachable|Connection refused|Cannot connect to proxy|Max retries exceeded"
        # Every index has this one, for every system: with few retries pip says no more about a dead network.
        r"|requirement hatchling\S* \(from versions: none\)",
        "the package index cannot be reached",
        "check the network and the proxy (HTTPS_PROXY), or point pip at a mirror (PIP_INDEX_URL), and start again",
    ),
    Failure(
        r"(?:No matching distribution found for|satisfies the requirement) (?P<what>[^\s(]+)",
        "the package index has no ready-made {what} for this system and this Python",
        "use Linux on x86-64 or ARM64 and Python 3.11 to 3.14; a local index must carry that package",
    ),
)


def explain(output: str) -> tuple[str, str]:
    """Returns why pip failed and what to do about it, one line each."""
    for failure in FAILURES:
        match = re.search(failure.pattern, output)
        if match:
            return failure.why.replace("{what}", match.groupdict().get("what") or ""), failure.remedy
    return last_line(output), "read pip's output"


def last_line(output: str) -> str:
    """The last line that says something, preferably the first error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors[:1] or lines[-1:] or ["it gave no reason"])[0]
