"""The wheels: each holds its own package alone, needs only what it declares, and works without the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import microsub
from tests.support.process import Installation
from tests.support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {
    "microsub": ROOT,
    "microsub_conformance": ROOT / "microsub_conformance",
    "microsub_demo": ROOT / "microsub_demo",
}
"""Package → folder of its `pyproject.toml`."""

GREETING = re.compile(r"^endpoint +(\S+).*Bearer ([\w.-]+)", re.MULTILINE | re.DOTALL)

COMES_WITH = {
    "hiredis": "redis",
    "httptools": "uvicorn",
    "markupsafe": "jinja2",
    "pydantic-core": "pydantic",
    "uvloop": "uvicorn",
}
"""Imported project → declared dependency that always installs it."""
LATER = {"compression"}
"""Modules of later Pythons' standard library, in whose place a declared dependency is imported before."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Package → its wheel."""
    folder = str(tmp_path_factory.mktemp("wheels"))
    return {name: Path(next(WheelBuilder(str(root)).build(directory=folder))) for name, root in DISTRIBUTIONS.items()}


def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def files(package: str) -> Iterator[str]:
    """The files of a package that belong in its wheel; the folders of the small ones also hold their metadata."""
    for file in (ROOT / package).rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts and (package == "microsub" or file.suffix == ".py"):
            yield str(file.relative_to(ROOT))


def test_a_wheel_contains_only_its_package(wheels: dict[str, Path]) -> None:
    """All files of the package, the licence, and nothing that takes another name in people's environments."""
    for name, wheel in wheels.items():
        packed = names(wheel)
        metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
        assert metadata.endswith(f"-{microsub.__version__}.dist-info"), "all distributions have one version"
        assert {file.partition("/")[0] for file in packed} == {name, metadata}
        assert f"{metadata}/licenses/LICENSE" in packed
        assert {file for file in packed if file.startswith(f"{name}/")} == set(files(name))


@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_a_source_archive_builds_the_same_wheel(package: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    """Without the repository, and without its tests and tools."""
    with tarfile.open(next(SdistBuilder(str(DISTRIBUTIONS[package])).build(directory=str(tmp_path)))) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob(f"{package}*-*/")
    rebuilt = Path(next(WheelBuilder(str(source)).build(directory=str(tmp_path))))
    assert (rebuilt.name, names(rebuilt)) == (wheels[package].name, names(wheels[package]))
    assert not {"tests", "scripts", "benchmarks"} & {one.name for one in source.iterdir()}


@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_a_distribution_declares_what_it_imports(package: str) -> None:
    """Every import of another project is of a dependency in `pyproject.toml`, or of one that comes with it."""
    project = tomllib.loads((DISTRIBUTIONS[package] / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.match(r"[\w.-]+", one)[0] for one in project["dependencies"]}  # type: ignore[index]
    providers = packages_distributions()
    own = {*DISTRIBUTIONS} if package == "microsub" else {package}
    needed = {
        (providers.get(top) or [top])[0].lower().replace("_", "-")
        for file in (ROOT / package).rglob("*.py")
        for top in imported(ast.parse(file.read_text("utf-8")))
        if top not in {*sys.stdlib_module_names, *LATER} and top not in own
    }
    assert {COMES_WITH.get(one, one) for one in needed} <= declared


def imported(module: ast.Module) -> Iterator[str]:
    """The top packages that a module imports."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


@pytest.fixture(scope="module")
def programs(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs in an empty environment that has the wheels of server and suite, and no repository.

    Their dependencies are those of this environment, whose `.pth` files aren't followed.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"),
            *("--no-compile", "--disable-pip-version-check", str(wheels["microsub"])),
            str(wheels["microsub_conformance"]),
        ],
        check=True,
        timeout=PATIENCE,
    )
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


async def test_the_installed_suite_passes_on_the_installed_server(programs: Path, tmp_path: Path) -> None:
    """Without the repository, both programs start from their wheels; the suite checks the server over HTTP."""
    place = Installation(tmp_path)
    place.write({"users": {"alice": {}}})
    out = tmp_path / "out"
    with out.open("wb") as file:
        server = subprocess.Popen(
            [programs / "microsub", "serve", "--show-token"],
            env=place.environment(),
            cwd=tmp_path,
            stdout=file,
            stderr=subprocess.DEVNULL,
        )
    try:
        found = await wait_until(lambda: GREETING.search(out.read_text()))
        suite = subprocess.run(
            [programs / "microsub", "conformance", "--endpoint", found[1], "--token", found[2], "--only", "channels"],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert (suite.returncode, suite.stderr) == (0, ""), suite.stdout


def test_a_server_without_the_demo_says_where_it_is(programs: Path, tmp_path: Path) -> None:
    """`microsub demo` needs another distribution, and names it in one line."""
    demo = subprocess.run(
        [programs / "microsub", "demo", "--data-dir", "data"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    expected = "microsub: the demo isn't installed: its package is microsub-demo. A checkout has it: make demo\n"
    assert (demo.returncode, demo.stdout, demo.stderr) == (1, "", expected)
    assert not (tmp_path / "data").exists()


def test_a_server_without_the_suite_says_where_it_is(wheels: dict[str, Path], tmp_path: Path) -> None:
    """`microsub conformance` names the other distribution in one line, and the code says that nothing was judged."""
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if not one.name.startswith("microsub"):
            (tmp_path / one.name).symlink_to(one)
    zipfile.ZipFile(wheels["microsub"]).extractall(tmp_path)
    program = f"import sys; sys.path.append({str(tmp_path)!r}); from microsub.cli import main; main(['conformance'])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    expected = "microsub: the conformance suite isn't installed: its package is microsub-conformance\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
