"""What stands in the way of a release is said before anything is published."""

import pytest
import release_check as release

import detok_py

pytestmark = pytest.mark.native  # about the files of the repository

CHANGES = """# Changelog

## 1.1.0 (unreleased)

- Decodes.

## 1.0.0 (2026-10-01)

Decoding
- Begins.

## 0.9.0 (2026-09-01)

"""


def test_this_version_has_a_section_in_the_changelog():
    text = (release.ROOT / "CHANGELOG.md").read_text("utf-8")
    assert release.version() == detok_py.__version__
    release.check_changelog(text, release.version(), released=False)


def test_a_section_is_enough_until_the_release_which_needs_its_date():
    release.check_changelog(CHANGES, "1.1.0", released=False)
    with pytest.raises(release.NotReady, match=r"a release needs “## 1.1.0 \(YYYY-MM-DD\)”"):
        release.check_changelog(CHANGES, "1.1.0", released=True)
    release.check_changelog(CHANGES, "1.0.0", released=True)


@pytest.mark.parametrize("number", ["1.2.0", "1.1", "1.1.0rc1"])
def test_a_version_without_a_section_is_refused(number):
    with pytest.raises(release.NotReady, match=f"has 0 sections “## {number} "):
        release.check_changelog(CHANGES, number, released=False)


def test_a_section_without_a_line_and_a_section_twice_are_refused():
    with pytest.raises(release.NotReady, match=r"says nothing of 0\.9\.0"):
        release.check_changelog(CHANGES, "0.9.0", released=False)
    with pytest.raises(release.NotReady, match="has 2 sections"):
        release.check_changelog(CHANGES + CHANGES, "1.0.0", released=True)


def test_the_tag_is_the_version_or_there_is_none():
    release.check_tag("")
    release.check_tag(f"v{detok_py.__version__}")
    for tag in (detok_py.__version__, "v0.0.1"):
        with pytest.raises(release.NotReady, match=f"The tag is {tag}"):
            release.check_tag(tag)


def test_packages_name_the_repository_that_publishes_them(monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    release.check_repository()
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/else")
    with pytest.raises(release.NotReady, match="this is https://github.com/somebody/else"):
        release.check_repository()


def test_what_is_built_must_be_whole_and_of_this_version(monkeypatch, tmp_path):
    monkeypatch.setattr(release, "version", lambda: "1.2.3")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "dist").mkdir()
    for name in ("a-1.2.3.tgz", "b-1.2.2.tgz"):
        (tmp_path / "dist" / name).touch()
    with pytest.raises(release.NotReady, match="must be 2 files of 1.2.3; run: make package"):
        release.packages("*.tgz", 2)
    (tmp_path / "dist" / "b-1.2.2.tgz").rename(tmp_path / "dist" / "b-1.2.3.tgz")
    assert [path.name for path in release.packages("*.tgz", 2)] == ["a-1.2.3.tgz", "b-1.2.3.tgz"]
