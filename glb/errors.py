"""Errors of the balancer."""

from __future__ import annotations


class GlbError(Exception):
    """Base of the balancer's own errors."""


class ConfigError(GlbError, ValueError):
    """A setting is out of range; the text names it and says what is allowed."""


class BagError(GlbError):
    """A bag does not keep the protocol; the text says where."""


class LedgerError(GlbError):
    """Bags or tasks were lost or doubled: the result must not be used. The text names the counts."""


class GraphError(GlbError):
    """A lifeline graph does not keep its promises; the text says where."""


class SearchError(GlbError):
    """The functions of a search do not keep their promises; the text says where."""
