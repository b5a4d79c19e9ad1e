"""The rules of the house, kept by tests: names, layers, and where JAX's private parts may be."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxpickle

PACKAGE = Path(jaxpickle.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = sorted(
    ".".join(("jaxpickle", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in FILES
)

LAYERS = [
    ("api",),
    ("pickler", "unpickler", "object_path"),
    ("families",),
    ("placements",),
    ("records", "_jax", "sink"),
    ("errors",),
]
"""From top to bottom: a module imports only from its own layer and from those below."""


def _layer(module: str) -> int | None:
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else ""
    return next((i for i, layer in enumerate(LAYERS) if name in layer), None)


def _imports(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a file imports when it is imported."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _own_public_names(module_name: str) -> set[str]:
    module = importlib.import_module(module_name)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module_name", MODULES)
def test_all_is_complete(module_name: str) -> None:
    """Every module lists all of its public functions and classes, and nothing unreal."""
    module = importlib.import_module(module_name)
    listed = getattr(module, "__all__", [])
    assert _own_public_names(module_name) <= set(listed)
    assert all(hasattr(module, name) for name in listed)
    assert len(set(listed)) == len(listed)


def test_the_public_names_are_those_of_the_contract() -> None:
    """The package offers what it promises and nothing else; each name resolves and is in dir()."""
    assert set(jaxpickle.__all__) == {
        "Pickler", "Unpickler", "dump", "dumps", "errors", "load", "loads", "placement",
    }  # fmt: skip
    assert all(getattr(jaxpickle, name) is not None for name in jaxpickle.__all__)
    assert set(jaxpickle.__all__) <= set(dir(jaxpickle))
    with pytest.raises(AttributeError, match="nonesuch"):
        jaxpickle.nonesuch  # noqa: B018


def test_submodules_do_not_hide_public_functions() -> None:
    """Importing every module leaves each public function callable: no module takes its name."""
    for module_name in MODULES:
        importlib.import_module(module_name)
    for name in jaxpickle.__all__:
        assert name == "errors" or callable(getattr(jaxpickle, name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path: Path) -> None:
    """No module imports, when it is imported, from a layer above its own."""
    module = ".".join(("jaxpickle", *path.relative_to(PACKAGE).with_suffix("").parts))
    own = _layer(module)
    if own is None:
        return
    for imported in _imports(path):
        layer = _layer(imported) if imported.startswith("jaxpickle") else None
        assert layer is None or layer >= own, f"{module} imports {imported}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_jax_lives_in_one_package(path: Path) -> None:
    """Only ``_jax`` names ``jax._src`` or ``jaxlib`` in code."""
    if "_jax" in path.parts:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        for name in names:
            assert "jax._src" not in name, f"line {node.lineno}"
            assert name.partition(".")[0] not in ("jaxlib", "_src"), f"line {node.lineno}"


def test_files_and_functions_stay_small() -> None:
    """No file outgrows one idea (300 lines), no function 50 lines with its docstring."""
    for path in FILES:
        source = path.read_text()
        assert source.count("\n") <= 300, path.name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 50, f"{path.name}: {node.name} has {length} lines"


def test_every_file_says_its_idea() -> None:
    """The first docstring line of each module is one sentence."""
    for path in FILES:
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, path.name
        assert re.match(r"[A-Z_a-z].*[.:]$", docstring.splitlines()[0]), path.name
