"""Clients of the run's federation, directly and through a proxy that can fail."""

import dataclasses
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.config import Connection
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation


@pytest.fixture
async def connection(federation: Federation) -> Connection:
    return await config.load(kubeconfig=str(federation.directory.kubeconfig))


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with Client(connection) as client:
        yield client


@pytest.fixture
async def proxy(connection: Connection) -> AsyncIterator[FaultProxy]:
    """Stands before the federation's API server."""
    async with FaultProxy(urlsplit(connection.server).port or 443) as proxy:
        yield proxy


@pytest.fixture
async def proxied(connection: Connection, proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client that goes through the proxy."""
    async with Client(dataclasses.replace(connection, server=proxy.url)) as client:
        yield client
