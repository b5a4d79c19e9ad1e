"""The examples of the documentation, run: every block of the pages, every docstring."""

import doctest
import importlib
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import fresh
import jaxpickle

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(path.relative_to(ROOT) for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

# A page is one script, run from its top; a block that begins with a prompt is checked against
# the output that it shows.
RUN_PAGE = f"""
import doctest

def _run_block(page, line, source):
    if not source.startswith(">>> "):
        exec(compile("\\n" * line + source, page, "exec"), globals())
        return
    test = doctest.DocTestParser().get_doctest(source, globals(), page, page, line)
    test.globs = globals()
    doctest.DebugRunner(optionflags={OPTIONS}).run(test, clear_globs=False)

for block in blobs["blocks"]:
    try:
        _run_block(*block)
    except doctest.DocTestFailure as failure:
        example = failure.example
        raise AssertionError(
            f"{{block[0]}}, line {{block[1] + example.lineno + 1}}: {{example.source}}"
            f"shows:\\n{{example.want}}and gives:\\n{{failure.got}}"
        ) from None
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1]
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of Python, and why it is not run, if so."""

    line: int  # of its first line, from 0
    source: str
    reason: str | None


def blocks(text: str) -> list[Block]:
    """The blocks of a page; one right below `<!-- not run: REASON -->` is not run."""
    pattern = re.compile(
        r"(?:^<!-- not run:(?P<reason>(?:(?!-->).)*)-->\n+)?^```python\n(?P<source>.*?)^```$",
        re.M | re.S,
    )
    return [
        Block(text.count("\n", 0, match.start("source")), match["source"], match["reason"])
        for match in pattern.finditer(text)
    ]


def modules_with_examples() -> list[ModuleType]:
    names = [
        "jaxpickle",
        *(m.name for m in pkgutil.walk_packages(jaxpickle.__path__, "jaxpickle.")),
    ]
    return [module for name in names if examples_of(module := importlib.import_module(name))]


def examples_of(module: ModuleType) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(module) if test.examples]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_block_of_a_page_runs(page: Path) -> None:
    """A reader who types a page in from its top, with eight devices, gets what it shows."""
    found = blocks((ROOT / page).read_text())
    fresh.run(
        RUN_PAGE,
        devices=8,
        blobs={"blocks": [(str(page), b.line, b.source) for b in found if b.reason is None]},
    )


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_fence_is_found_and_every_exception_has_a_reason(page: Path) -> None:
    """No block escapes by the way it is written."""
    text = (ROOT / page).read_text()
    found = blocks(text)
    assert len(found) == len(re.findall(r"^\s*[`~]{3,}\s*py", text, re.M | re.I))
    assert all(block.reason is None or block.reason.strip() for block in found)


@pytest.mark.parametrize("module", modules_with_examples(), ids=lambda module: module.__name__)
def test_every_docstring_example_runs(module: ModuleType) -> None:
    """The examples of a module give what they show."""
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    for test in examples_of(module):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
