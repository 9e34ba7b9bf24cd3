"""The test machinery itself: a check that was never seen red is not a check."""

from __future__ import annotations

import textwrap

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.slow
def test_a_test_that_leaves_a_process_fails(
    pytester: pytest.Pytester, request: pytest.FixtureRequest
) -> None:
    conftest = (request.config.rootpath / "tests" / "conftest.py").read_text(encoding="utf-8")
    pytester.makeconftest(conftest.replace("LEAK_GRACE_S = 2.0", "LEAK_GRACE_S = 0.1"))
    pytester.makepyfile(
        textwrap.dedent("""
            import subprocess

            def test_leaves_a_sleeper():
                subprocess.Popen(["sleep", "30"])

            def test_leaves_nothing():
                subprocess.run(["sleep", "0"], check=True)
        """)
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*processes left behind:*", "*sleep 30*"])


@pytest.mark.slow
def test_a_missing_capability_skips_unless_it_is_required(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    conftest = (request.config.rootpath / "tests" / "conftest.py").read_text(encoding="utf-8")
    pytester.makeconftest(conftest + "\nCAPABILITIES['userns'] = lambda: False\n")
    pytester.makepyfile("def test_needs_it(require):\n    require('userns')\n")
    monkeypatch.delenv("TORCH_CHAOS_TESTS_REQUIRE", raising=False)
    pytester.runpytest_subprocess().assert_outcomes(skipped=1)
    monkeypatch.setenv("TORCH_CHAOS_TESTS_REQUIRE", "userns")
    pytester.runpytest_subprocess().assert_outcomes(failed=1)
    monkeypatch.setenv("TORCH_CHAOS_TESTS_REQUIRE", "userns,warp")
    pytester.runpytest_subprocess().assert_outcomes(errors=1)


def test_golden_compares_and_says_how_to_mend(
    pytester: pytest.Pytester, request: pytest.FixtureRequest
) -> None:
    conftest = (request.config.rootpath / "tests" / "conftest.py").read_text(encoding="utf-8")
    pytester.makeconftest(conftest)
    pytester.makepyfile("def test_text(golden):\n    golden('a.txt', 'hello')\n")
    missing = pytester.runpytest_inprocess()
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*mend: pytest --update-golden*"])
    pytester.runpytest_inprocess("--update-golden").assert_outcomes(passed=1)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
