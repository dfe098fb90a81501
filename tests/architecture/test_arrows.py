"""Who may import whom. The map is in docs/architecture.md; here it is law."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# room -> rooms that it may import from; "errors" and "options" stand for the modules of those names.
PYTHON = {
    "aneforge.errors": set[str](),
    "aneforge.ir": {"errors"},
    "aneforge.targets": {"errors"},
    "aneforge.options": {"errors", "targets"},
    "aneforge.ops": {"errors", "ir"},
    "aneforge.passes": {"errors", "ir", "ops", "targets"},
    "aneforge.mil": {"errors", "ir", "targets"},
    "aneforge.backends": {"errors", "options", "mil", "targets", "cache"},
    "aneforge.onnx": {"errors", "options", "ir", "ops", "targets", "passes"},
    "aneforge.engine_time": {"ir", "targets"},
    "aneforge.pipeline": {"errors", "options", "ir", "targets", "passes", "mil", "backends", "engine_time"},
    "aneforge.verdicts": {"errors", "ir", "targets", "passes"},
    "aneforge.buffers": {"backends"},
    "aneforge.runnable": {"options", "backends", "buffers", "pipeline"},
    "aneforge.model": {
        "errors",
        "options",
        "ir",
        "ops",
        "targets",
        "passes",
        "backends",
        "onnx",
        "pipeline",
        "runnable",
    },
    "aneforge.cache": {"__version__"},
    "aneforge.export": {"errors", "options", "ir", "passes", "targets", "mil", "pipeline", "onnx", "model"},
    "aneforge.onnx.backend": {"errors", "model", "onnx", "runnable"},
    "aneforge.accuracy": {"errors", "options", "ir", "ops", "targets", "mil", "backends", "onnx", "pipeline"},
    "aneforge.selfcheck": {
        "errors",
        "options",
        "ir",
        "ops",
        "targets",
        "passes",
        "mil",
        "backends",
        "engine_time",
    },
    "partitioner": set(),
    "provider": {"aneforge", "partitioner"},
    "aneforge.cli": {"aneforge", "provider"},
}

# room -> what it may include, beside itself
NATIVE = {
    "core": set[str](),
    "mil": {"core"},
    "host": {"mil", "core"},
    "runtime": {"mil", "core"},
    "coreml": {"core"},
    "ep": {"core"},
    "python": {"core/c_api.h"},
}

# Only these may name the two heavy neighbours at all.
OUTSIDE = {
    "onnxruntime": {"provider", "aneforge.cli"},
    "onnx": {"provider", "aneforge.onnx", "aneforge.onnx.backend", "aneforge.cli", "aneforge.model"},
}


def files(room: str) -> list[Path]:
    base = ROOT / room.replace(".", "/")
    if not base.is_dir():
        return [base.with_suffix(".py")]
    finer = [ROOT / (other.replace(".", "/") + ".py") for other in PYTHON if other.startswith(room + ".")]
    return sorted(path for path in base.rglob("*.py") if path not in finer)


def module_name(path: Path) -> list[str]:
    """As installed: provider/ and partitioner/ are parts of aneforge."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] in ("provider", "partitioner"):
        parts.insert(0, "aneforge")
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, wherever in it; those only for type checkers are no arrows."""
    own = module_name(path)
    package = own if path.name == "__init__.py" else own[:-1]
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(ast.Module(node.body, []))
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                yield ".".join([*base, alias.name])


def room_of(module: str) -> str | None:
    """The room of one of our modules: `ir`, `partitioner`, `errors`; None for everybody else's."""
    parts = module.split(".")
    if parts[0] != "aneforge":
        return None
    return parts[1] if len(parts) > 1 else "aneforge"


@pytest.mark.parametrize("room", PYTHON)
def test_python_arrows(room: str) -> None:
    allowed = PYTHON[room]
    own = room.rsplit(".", maxsplit=1)[-1]
    assert files(room)
    wrong = []
    for path in files(room):
        for module in imports(path):
            target = room_of(module)
            if target is None or target == own or target in allowed:
                continue
            if "aneforge" in allowed and target not in ("cli", "provider"):
                continue
            wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_every_room_has_its_arrows() -> None:
    rooms = {p.name.removesuffix(".py") for p in (ROOT / "aneforge").iterdir() if p.suffix == ".py" or p.is_dir()}
    known = {name.split(".")[1] for name in PYTHON if "." in name}
    assert rooms - known - {"__pycache__", "__init__", "__main__", "_collision"} == set()


@pytest.mark.parametrize("neighbour", OUTSIDE)
def test_heavy_neighbours(neighbour: str) -> None:
    wrong = []
    for room in PYTHON:
        for path in files(room):
            if any(m.split(".")[0] == neighbour for m in imports(path)) and room not in OUTSIDE[neighbour]:
                wrong.append(str(path.relative_to(ROOT)))
    assert not wrong


@pytest.mark.parametrize("room", NATIVE)
def test_native_arrows(room: str) -> None:
    allowed = NATIVE[room]
    wrong = []
    for path in sorted((ROOT / "native" / room).rglob("*")):
        if path.suffix in (".cc", ".h", ".inl"):
            for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
                target = included.split("/")[0] if (ROOT / "native" / included).exists() else room
                if target != room and target not in allowed and included not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} includes {included}")
    assert not wrong


def test_the_partitioner_knows_nothing_but_python() -> None:
    found = {m.split(".")[0] for path in files("partitioner") for m in imports(path)}
    assert not found & {"numpy", "onnx", "onnxruntime"}


def test_every_package_is_installed() -> None:
    """The list in pyproject.toml is by hand; an editable install does not miss what a wheel would."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    tops = [p for top in ("aneforge", "partitioner", "provider") for p in (ROOT / top).rglob("__init__.py")]
    assert sorted(listed) == sorted(".".join(module_name(path)) for path in tops)
