"""Who may talk to a scheduler of Dask runs code as its owner: on this machine only the command that started it."""

import importlib.util
import socket
import ssl
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from kmdr.base.errors import UserError

if importlib.util.find_spec("distributed") is None or importlib.util.find_spec("cryptography") is None:
    pytest.skip("Dask or cryptography is not installed", allow_module_level=True)

import distributed

from kmdr.harness.engines import dask
from kmdr.harness.engines.local import SAFE_PATH


def ask(place, context):
    """Connect to a scheduler or a worker with some credentials, and raise an error if it ends the connection."""
    host, _, port = place.removeprefix("tls://").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as connection:
        if not connection.recv(1):
            raise ConnectionError


def context_of(security):
    """Return the credentials of a client that accepts any certificate of a server."""
    context = security.get_connection_args("client")["ssl_context"]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.slow
def test_a_cluster_of_this_machine_admits_nobody_without_its_temporary_certificate(monkeypatch):
    monkeypatch.delenv(SAFE_PATH, raising=False)
    monkeypatch.setattr(dask, "warn", pytest.fail)
    with dask.connected(None, None, 1) as cluster:
        address = cluster._client.scheduler.address
        workers = cluster._client.scheduler_info()["workers"]
        assert {place.partition("://")[0] for place in (address, *workers)} == {"tls"}
        assert address.startswith("tls://127.0.0.1:")
        nobody = ssl.create_default_context()
        nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
        for place in (address, *workers):
            ask(place, context_of(cluster._client.security))
            for context in (nobody, context_of(distributed.Security.temporary())):
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    ask(place, context)
            for attempt in (
                {"address": place.replace("tls://", "tcp://")},
                {"address": place, "security": distributed.Security.temporary()},
            ):
                with pytest.raises((OSError, ValueError, TypeError)):
                    distributed.Client(**attempt, timeout="3s", set_as_default=False)
        services = [cluster._client.scheduler_info()["services"], *(worker["services"] for worker in workers.values())]
        for port in [each["dashboard"] for each in services]:
            for page in ("health", "info/main/workers.html", "json/counts.json", "metrics", "info/main/logs.html"):
                with pytest.raises(HTTPError, match="404"):
                    urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
        assert cluster._client.submit(sum, [1, 2]).result() == 3


def test_without_cryptography_the_error_names_what_to_install(monkeypatch):
    def fail():
        raise ImportError("cryptography")

    monkeypatch.setattr(distributed.Security, "temporary", fail)
    with pytest.raises(UserError, match=r"needs the package cryptography.* pip install 'kmdr\[dask\]'"):
        dask._temporary_credentials()


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("tcp://10.0.0.7:8786", True),
        ("node1:8786", True),
        ("tcp://node1:8786", True),
        ("ws://node1:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
        ("tcp://127.0.0.1.example.org:8786", True),
        ("tls://10.0.0.7:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://127.8.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("localhost:8786", False),
        ("inproc://10.0.0.7/1/1", False),
    ],
)
def test_a_scheduler_outside_this_machine_without_tls_is_warned_of(address, warned, capsys):
    dask._warn_of_open(address)
    said = capsys.readouterr().err
    assert bool(said) == warned
    assert said.count("\n") == warned
    assert not warned or f"the scheduler at {address} is reached without TLS" in said
