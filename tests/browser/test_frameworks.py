"""detok-web in the frameworks and bundlers that people have: each from an empty folder, with what npm
installs there, built for production and served as plain files.
"""

import functools
import http.server
import os
import shutil
import subprocess
import threading

import pytest
from packed import ROOT, pack
from playwright.sync_api import expect

from detok_py import Vocabulary

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

APPS = ROOT / "tests" / "bundlers"
TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪"
BUILDS = {
    "next": ("next", "build"),
    "next with webpack": ("next", "build:webpack"),
    "parcel": ("parcel", "build"),
    "sveltekit": ("sveltekit", "build"),
    "vue": ("vue", "build"),
}


class Files(http.server.SimpleHTTPRequestHandler):
    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("packed"))["file"]


def npm(folder, *words):
    """Run npm; return what it says and whether it went well."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().startswith("npm_config_")
    }
    environment |= {
        "NEXT_TELEMETRY_DISABLED": "1",
        "npm_config_update_notifier": "false",
        "CI": "1",
    }
    done = subprocess.run(
        ["npm", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    return done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def installed(package, tmp_path_factory):
    """The folder of an app with all that it needs, installed once for each app."""
    folders = {}

    def install(name):
        if name not in folders:
            folder = tmp_path_factory.mktemp(name) / "app"
            shutil.copytree(APPS / name, folder)
            shutil.copy(APPS / "decode.js", folder)
            fine, said = npm(folder, "install", "--no-audit", "--no-fund", "--no-package-lock")
            if not fine and any(
                word in said for word in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED")
            ):
                pytest.skip(f"npm could not install {name}: is a registry reachable?")
            assert fine, said
            fine, said = npm(
                folder,
                *("install", "--no-save", "--no-audit", "--no-fund", "--no-package-lock", package),
            )
            assert fine, said
            folders[name] = folder
        return folders[name]

    return install


@pytest.fixture
def serve():
    servers = []

    def start(folder):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Files, directory=str(folder))
        )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("build", BUILDS)
def test_a_production_build_decodes_bytes_and_ids(page, installed, serve, build):
    name, script = BUILDS[build]
    folder = installed(name)
    shutil.rmtree(folder / "out", ignore_errors=True)
    fine, said = npm(folder, "run", script)
    assert fine, said
    (folder / "out" / "bytes.detok").write_bytes(
        Vocabulary.from_bytes([bytes([n]) for n in range(256)]).pack()
    )
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(serve(folder / "out"))
    page.wait_for_selector("html[data-state=finished]", state="attached", timeout=60_000)
    expect(page.locator("output")).to_have_text(TEXT + TEXT)
    assert complaints == []
