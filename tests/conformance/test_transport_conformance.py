from __future__ import annotations

from functools import partial

import pytest

from apgas.testing.transport_conformance import CHECKS, Check
from apgas.testing.transport_recorder import TransportFactory
from apgas.transport.auth import new_token
from apgas.transport.local import LocalNetwork
from apgas.transport.tcp import TcpTransport


@pytest.fixture(params=["tcp", "local"])
def new_transport(request: pytest.FixtureRequest) -> TransportFactory:
    if request.param == "tcp":
        return partial(TcpTransport, new_token())
    return LocalNetwork().transport


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_transport_keeps_the_contract(check: Check, new_transport: TransportFactory) -> None:
    check(new_transport)
