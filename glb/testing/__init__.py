"""Helps programs test their bags, and this library test itself."""

from __future__ import annotations

from glb.testing.conformance import Numbers, Total, check_bag, check_graph, check_search

__all__ = ["Numbers", "Total", "check_bag", "check_graph", "check_search"]
