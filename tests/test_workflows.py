"""The CI workflows: what they call exists, and they have the least permissions."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from documents import blocks

import detok_py
from detok_py.cli import command_line

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
JOBS = {
    f"{name}.{job}": body
    for name, workflow in WORKFLOWS.items()
    for job, body in workflow["jobs"].items()
}
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]


def commands(name):
    return [step["run"] for job, step in STEPS if job == name and "run" in step]


def test_there_are_workflows_for_testing_and_for_publishing():
    assert set(WORKFLOWS) == {"test", "publish", "site"}


each_step = pytest.mark.parametrize(
    "step", [step for _, step in STEPS], ids=[f"{name}-{n}" for n, (name, _) in enumerate(STEPS)]
)


@each_step
def test_every_make_target_and_file_of_a_step_exists(step):
    command = step.get("run", "")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= set(targets)
    for file in re.findall(r"\b(?:tools|tests|detok_py|requirements)/[\w/.-]+", command):
        assert (ROOT / file).exists(), file


@each_step
def test_every_action_is_pinned_to_a_commit(step):
    if "uses" in step:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", step["uses"])


def test_every_supported_python_is_tested():
    oldest = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())[1]
    versions = JOBS["test.test"]["strategy"]["matrix"]["python"]
    assert versions == [f"3.{minor}" for minor in range(int(oldest), 15)]
    assert commands("test.test")[-2:] == ["make test", "make test-all"]


def test_permissions_are_minimal():
    assert WORKFLOWS["test"]["permissions"] == {"contents": "read"}
    assert WORKFLOWS["publish"]["permissions"] == {}
    assert {
        name: job.get("permissions") for name, job in JOBS.items() if name.startswith("publish.")
    } == {
        "publish.build": {"contents": "read"},
        "publish.pypi": {"id-token": "write"},
        "publish.npm": {"id-token": "write"},
        "publish.release": {"contents": "write"},  # makes the GitHub release
    }


def test_the_site_is_published_by_a_job_that_only_uploads_it():
    assert WORKFLOWS["site"]["permissions"] == {}
    assert JOBS["site.build"]["permissions"] == {"contents": "read"}
    assert commands("site.build") == ["make site"]
    publish = JOBS["site.publish"]
    assert (publish["needs"], publish["environment"]) == ("build", "github-pages")
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert [step["uses"].split("@")[0] for step in publish["steps"]] == ["actions/deploy-pages"]
    # What is uploaded is what the build has made.
    (upload,) = [
        step
        for job, step in STEPS
        if job == "site.build" and "pages-artifact" in step.get("uses", "")
    ]
    assert upload["with"]["path"] == ".build/site"


def test_jobs_that_publish_run_no_code_of_the_repository():
    for name in ("publish.pypi", "publish.npm"):
        assert "build" in JOBS[name]["needs"]
        assert JOBS[name]["environment"] == name.removeprefix("publish.")
        assert not [
            step
            for job, step in STEPS
            if job == name and step.get("uses", "").startswith("actions/checkout")
        ]
    assert {"make test", "make test-all"} <= set(commands("publish.build"))
    # What it builds is what the other jobs publish; the tag is checked before the hour of tests.
    rehearsals = [command for command in commands("publish.build") if "$GITHUB_REF_NAME" in command]
    assert rehearsals == [
        'python3 tools/release_check.py --words "$GITHUB_REF_NAME"',
        'make release-check TAG="$GITHUB_REF_NAME"',
    ]
    assert commands("publish.build").index(rehearsals[0]) == 0


def test_only_a_tag_publishes_and_only_with_provenance():
    # YAML 1.1 reads the key `on` as true.
    assert WORKFLOWS["publish"][True] == {"push": {"tags": ["v*"]}}
    (publish,) = commands("publish.npm")
    assert 'npm publish "$package" --provenance' in publish
    (upload,) = [
        step for job, step in STEPS if job == "publish.pypi" and step["uses"].startswith("pypa/")
    ]
    assert upload["with"] == {"attestations": True}


def test_no_workflow_uses_a_secret():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert "secrets." not in path.read_text("utf-8")


def test_an_issue_asks_for_the_report_of_the_page_and_says_how_to_get_it():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    page = (ROOT / "web" / "demo" / "index.html").read_text("utf-8")
    forms = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(folder.glob("*.yml"))]
    asked = [form for form in forms if "body" in form]
    assert len(asked) == 2
    for form in asked:
        assert {"name", "description", "body"} <= set(form)
        fields = {field["id"]: field for field in form["body"]}
        assert {field["type"] for field in form["body"]} <= {"textarea", "input"}
        assert '"Copy report"' in fields["report"]["attributes"]["description"]
    assert ">Copy report</button>" in page


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["cff-version"], cited["version"]) == ("1.2.0", detok_py.__version__)
    assert cited["license"] == "Apache-2.0"


CI_BLOCKS = [each for each in blocks() if each.document.endswith("testing-in-ci.md")]


@pytest.mark.parametrize(
    ("block", "schema"),
    [*zip(CI_BLOCKS, ("github-workflows", "gitlab-ci"), strict=True)],
    ids=["github", "gitlab"],
)
def test_a_job_to_copy_fits_the_schema_and_its_command_exists(block, schema, tmp_path):
    file = tmp_path / "job.yml"
    file.write_text(block.text, "utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    wrong = re.sub(r"^( +)(runs-on|script):", r"\1runs:", block.text, flags=re.MULTILINE)
    file.write_text(wrong, "utf-8")
    assert subprocess.run([*command, file], capture_output=True).returncode == 1
    jobs = yaml.safe_load(block.text)
    steps = jobs["jobs"]["glyphs"]["steps"] if "jobs" in jobs else []
    lines = [step.get("run", "") for step in steps] or jobs["glyphs"]["script"]
    words = shlex.split(next(line for line in lines if line.startswith("npx detok-web check")))
    given = command_line("check").parse_args(words[2:])
    assert (given.split, given.junit, given.html) == ("every-byte", "glyphs.xml", "glyphs.html")
