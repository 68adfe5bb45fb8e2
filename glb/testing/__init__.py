"""Helps programs test their bags, their searches and their lifeline graphs."""

from __future__ import annotations

from glb.testing.conformance import check_bag, check_graph, check_search

__all__ = ["check_bag", "check_graph", "check_search"]
