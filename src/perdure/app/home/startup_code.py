"""Code that runs at every start of this Python: lines of `.pth` files, and customize modules.

With such a line, an installed package runs code in every command without being imported.
"""

import re
import site
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_KNOWN = {
    r"distutils-precedence\.pth": r"import os; var = 'SETUPTOOLS_USE_DISTUTILS';"
    r" enabled = os\.environ\.get\(var, '(?:local|stdlib)'\) == 'local';"
    r" enabled and __import__\('_distutils_hack'\)\.add_shim\(\);",
    r"_virtualenv\.pth": r"import _virtualenv",
    r"__editable__\..+\.pth": r"import (__editable___\w+_finder); \1\.install\(\)",
    r"_?[\w.-]+\.pth": r"import _editable_impl_\w+",
    r"a1_coverage\.pth": re.escape(
        r"""import sys; exec('import os\n\nif os.getenv("COVERAGE_PROCESS_START") or"""
        r""" os.getenv("COVERAGE_PROCESS_CONFIG"):\n try:\n  import coverage\n except:\n  pass\n else:\n"""
        r"""  coverage.process_startup(slug="pth")')"""
    ),
}
"""Lines of setuptools, virtualenv, editable installs and coverage, by file name; the whole line must match."""
_CUSTOMIZE = ("sitecustomize", "usercustomize")
_SHOWN = 60
_MOST = 5


@dataclass(frozen=True)
class StartupCode:
    """One place that runs code when Python starts."""

    path: Path
    line: int
    text: str
    is_known: bool

    def __str__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        shown = "".join(each if each.isprintable() else "?" for each in text)
        return f"{self.path}, line {self.line}: {shown}" if self.line else str(self.path)


def examine_startup_code() -> tuple[Literal["ok", "warn"], str]:
    """Return the status and the detail of a check for code that runs when Python starts."""
    found = [*pth_code(_site_folders()), *_customize_modules()]
    unknown = [str(each) for each in found if not each.is_known]
    known = sorted({each.path.name for each in found if each.is_known})
    also = f" (known: {', '.join(known)})" if known else ""
    if not unknown:
        return "ok", f"no unknown code runs when Python starts{also}"
    more = f"; and {len(unknown) - _MOST} more" if len(unknown) > _MOST else ""
    listed = "; ".join(unknown[:_MOST]) + more
    return "warn", f"code runs when Python starts: {listed}. Remove it unless you trust it{also}"


def pth_code(folders: Iterable[Path]) -> Iterator[StartupCode]:
    """Yield the lines of `.pth` files that Python executes; other lines only add a folder to the path."""
    for folder in folders:
        for path in sorted(folder.glob("*.pth")):
            try:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                yield StartupCode(path, 0, str(error), is_known=False)
                continue
            for number, text in enumerate(lines, 1):
                if text.startswith(("import ", "import\t")):
                    yield StartupCode(path, number, text, _is_known(path.name, text))


def _is_known(name: str, text: str) -> bool:
    return any(re.fullmatch(file, name) and re.fullmatch(line, text.rstrip()) for file, line in _KNOWN.items())


def _site_folders() -> list[Path]:
    """Return the folders whose `.pth` files this Python has run; empty under `-S`."""
    if sys.flags.no_site:
        return []
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [path for each in dict.fromkeys(folders) if (path := Path(each)).is_dir()]


def _customize_modules() -> Iterator[StartupCode]:
    for name in _CUSTOMIZE:
        module = sys.modules.get(name)
        if module is not None:
            yield StartupCode(Path(getattr(module, "__file__", None) or name), 0, "", is_known=False)
