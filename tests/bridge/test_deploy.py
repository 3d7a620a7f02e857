"""The files of deploy/, run without containers: Redis as they start it, and the probes."""

import contextlib
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from local_server import free_port
from redis_rig import program
from test_bridge_gate import serving
from waiting import eventually_sync

from detok_py.bridge.redis_store import RedisStore

pytestmark = [pytest.mark.native, pytest.mark.full]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PASSWORD = "the-password-of-this-redis"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
OBJECTS = {
    (one["kind"], one["metadata"]["name"]): one
    for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
}


def pod_of(kind, name):
    return OBJECTS[kind, name]["spec"]["template"]["spec"]


BRIDGE = pod_of("Deployment", "detok-bridge")["containers"][0]
REDIS = pod_of("StatefulSet", "detok-store")["containers"][0]


@contextlib.contextmanager
def redis_of(words, folder):
    """Run Redis with the words of a container, at 127.0.0.1; yield its port."""
    port = free_port()
    password = re.compile(r"\$\(STORE_PASSWORD\)|\$\{DETOK_STORE_PASSWORD[^}]*\}")
    changed = [password.sub(PASSWORD, one).replace("/tls/", f"{folder}/") for one in words]
    changed = [str(port) if one == "6379" else one for one in changed]
    if "--port" not in changed:
        changed += ["--port", str(port)]
    redis = program("DETOK_REDIS", "redis-server", "valkey-server")
    process = subprocess.Popen(
        [redis, "--bind", "127.0.0.1", "--dir", str(folder), *changed],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []

    def accepts():
        said.append(process.stdout.readline())
        return "Ready to accept connections" in said[-1] or process.poll() is not None

    try:
        eventually_sync(accepts)
        assert process.poll() is None, "".join(said)
        yield port
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def make_certificate(folder):
    """Make a certificate for localhost that is its own authority."""
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    openssl = program("DETOK_OPENSSL", "openssl")
    subprocess.run([openssl, *words], check=True, capture_output=True)
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())


async def state_of(address):
    """Return why no run can begin with this store, or None."""
    store = RedisStore(address, secret="s")
    await store.open(lambda run: None)
    try:
        return store.state.away
    finally:
        await store.close()


def store_of(words, port, folder=""):
    (address,) = [one.partition("=")[2] for one in words if one.startswith("--store=")]
    return re.sub(r"//[^/]+:6379", f"//localhost:{port}", address).replace("/tls/", f"{folder}/")


async def test_the_replicas_of_compose_reach_their_redis(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("DETOK_STORE_PASSWORD", PASSWORD)
    with redis_of(COMPOSE["store"]["command"][1:], tmp_path) as port:
        address = store_of(COMPOSE["bridge"]["command"], port)
        assert await state_of(address) is None
        assert caplog.messages == []  # no warning about the memory policy, either
        monkeypatch.delenv("DETOK_STORE_PASSWORD")
        assert "password" in await state_of(address)


async def test_the_replicas_of_kubernetes_reach_their_redis_by_tls(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("DETOK_STORE_PASSWORD", PASSWORD)
    make_certificate(tmp_path)
    with redis_of(REDIS["args"], tmp_path) as port, caplog.at_level(logging.WARNING):
        address = store_of(BRIDGE["args"], port, tmp_path)
        assert await state_of(address) is None
        assert caplog.messages == []
        # Without the authority's file the certificate is unknown.
        assert "cannot be reached" in await state_of(address.partition("?")[0])


def test_the_probe_of_kubernetes_tells_a_bridge_that_stops(monkeypatch):
    command = [sys.executable, *BRIDGE["readinessProbe"]["exec"]["command"][1:]]
    (ready,) = [one["value"] for one in BRIDGE["env"] if one["name"] == "DETOK_READY"]
    monkeypatch.setenv("DETOK_TOKEN", "a-token-that-all-replicas-have")
    with serving() as (_, url):
        monkeypatch.setenv("DETOK_READY", ready.replace("8765", url.rstrip("/").rpartition(":")[2]))
        assert subprocess.run(command, timeout=60).returncode == 0
    assert subprocess.run(command, timeout=60, capture_output=True).returncode != 0


def test_budgets_services_and_secrets_of_kubernetes_name_what_is_there():
    labels = {
        one["spec"]["template"]["metadata"]["labels"]["app"]
        for (kind, _), one in OBJECTS.items()
        if kind in ("Deployment", "StatefulSet")
    }
    for (kind, name), one in OBJECTS.items():
        if kind == "Service":
            assert one["spec"]["selector"]["app"] in labels, name
        if kind == "PodDisruptionBudget":
            assert one["spec"]["selector"]["matchLabels"]["app"] in labels, name
            assert one["spec"]["maxUnavailable"] < OBJECTS["Deployment", name]["spec"]["replicas"]
    head = (DEPLOY / "kubernetes.yaml").read_text("utf-8").partition("apiVersion")[0]
    keys = [
        one["valueFrom"]["secretKeyRef"]
        for one in (*BRIDGE["env"], *REDIS["env"])
        if "valueFrom" in one
    ]
    assert [one["key"] for one in keys if f"--from-literal={one['key']}=" not in head] == []
    for container in (BRIDGE, REDIS):
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
