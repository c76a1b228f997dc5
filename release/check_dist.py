"""What dist/ holds is complete, and the wheel alone runs the README. python release/check_dist.py"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 2_000_000


def check(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(f"dist: {message}")


def check_wheel(path: Path) -> None:
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    expected = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "paloma").rglob("*") if p.is_file()}
    expected = {name for name in expected if "__pycache__" not in name}
    info = {name for name in names if ".dist-info/" in name}
    check(names - info == expected, f"the wheel differs from src: {sorted((names - info) ^ expected)[:10]}")
    for part in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
        check(any(name.endswith(part) for name in info), f"the wheel has no {part}")
    check(path.stat().st_size < MOST_BYTES, f"the wheel has {path.stat().st_size:,} bytes")


def check_sdist(path: Path) -> None:
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for part in ("pyproject.toml", "README.md", "LICENSE", "tests/conftest.py", "docs/theory.md", "Makefile"):
        check(part in names, f"the sdist has no {part}")
    strays = [name for name in names if "__pycache__" in name or name.startswith((".venv", "build/", "dist/"))]
    check(not strays, f"the sdist holds {strays[:5]}")
    check(path.stat().st_size < 2 * MOST_BYTES, f"the sdist has {path.stat().st_size:,} bytes")


def check_story(wheel: Path) -> None:
    """The README as a test, in an environment that has the wheel and nothing else of the project."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", wheel], check=True)
        options = "doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS"
        code = f"import doctest, sys; sys.exit(doctest.testfile(sys.argv[1], False, optionflags={options})[0])"
        subprocess.run([python, "-c", code, ROOT / "README.md"], check=True, cwd=folder)
        subprocess.run([python, "-m", "paloma", "--help"], check=True, cwd=folder, stdout=subprocess.DEVNULL)


def main() -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    check_story(wheel)
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
