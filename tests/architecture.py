"""The structure of the package as tables, and what in a source breaks them.

Sources are parsed, never imported, so an import counts wherever it stands: in a function, under
TYPE_CHECKING, or as a call of import_module. `check` takes sources as text, so that a test can show it
sources which break a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

__all__ = ["MAY_IMPORT", "PACKAGE", "Violation", "check", "read_sources"]

PACKAGE = "barbicel"

_BOTTOM = frozenset({"errors", "disk", "clock", "closing", "config"})
_TO_STROMA = _BOTTOM | {"codecs", "keratin", "stroma"}
_TO_GATEWAY = _TO_STROMA | {"kestrel_compat", "tier"}

# Part → the parts that it may import. A part is a module or a directory right in the package. Its own
# modules are not listed. The picture is in docs/architecture.md.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    "clock": frozenset(),
    "closing": frozenset(),
    "disk": frozenset({"errors"}),
    "config": frozenset({"errors", "disk"}),
    "codecs": frozenset({"errors", "disk"}),
    "keratin": _BOTTOM | {"codecs"},
    "stroma": _BOTTOM | {"codecs", "keratin"},
    "tier": _BOTTOM | {"codecs"},
    "kestrel_compat": _TO_STROMA,
    "gateway": _TO_GATEWAY,
    # Kestrel's journals are read by a job as they are by the importer: one replay, and one result.
    "pipeline": _BOTTOM | {"codecs", "keratin", "tier", "kestrel_compat"},
    "cli": _TO_GATEWAY | {"gateway", "pipeline"},
    "__main__": frozenset({"cli"}),
    "__init__": frozenset(),
}

# (part, imported part) → the only names or modules that it may take from there.
ONLY_NAMES: Mapping[tuple[str, str], frozenset[str]] = {
    # The type of a buffer. Everything else there is I/O, which a codec has none of.
    ("codecs", "disk"): frozenset({"Bytes"}),
    # The pipeline reads logs, it never writes one.
    ("pipeline", "keratin"): frozenset(
        {"Log", "LogSettings", "layout", "manifest", "reader", "settings", "walk"}
    ),
}

# What the package itself offers to everybody.
PACKAGE_NAMES = frozenset({"__version__"})

# Library → the only part that may know it.
ONLY_IN: Mapping[str, str] = {
    "obstore": "tier",
    "twisted": "gateway",
    "zope": "gateway",
    "pyspark": "pipeline",
    "py4j": "pipeline",
}

# Bytes and values, nothing else.
NOT_IN_CODECS = frozenset(
    {
        "asyncio",
        "datetime",
        "logging",
        "random",
        "secrets",
        "select",
        "socket",
        "structlog",
        "subprocess",
        "threading",
        "time",
    }
)

FILES_ONLY_IN = f"{PACKAGE}/disk.py"

# Modules that touch files → the names of theirs that do not, each with its reason.
FILE_MODULES: Mapping[str, Mapping[str, str]] = {
    "os": {
        "cpu_count": "a number of the machine",
        "environ": "settings that come from the environment",
        "getpid": "a number of this process",
        "eventfd": "no file",
        "eventfd_write": "no file",
        "EFD_CLOEXEC": "no file",
        "EFD_NONBLOCK": "no file",
        "urandom": "random bytes, from a system call",
    },
    "io": {
        "BytesIO": "lives in memory",
        "StringIO": "lives in memory",
    },
    "pathlib": {
        "PurePath": "a path as text",
        "PurePosixPath": "a path as text",
    },
    "_io": {},
    "dbm": {},
    "fcntl": {},
    "fileinput": {},
    "glob": {},
    "linecache": {},
    "mmap": {},
    "posix": {},
    "posixpath": {},
    "shelve": {},
    "shutil": {},
    "sqlite3": {},
    "tarfile": {
        "TarInfo": "the head of a file in an archive, as bytes",
    },
    "tempfile": {},
    "zipfile": {},
}

# Single names that touch files in modules that otherwise do not. So does whatever is called `open`.
FILE_NAMES = frozenset(
    {
        "click.File",
        "click.open_file",
        "importlib.resources",
        "logging.FileHandler",
        "logging.handlers",
        "twisted.python.filepath",
    }
)

# Methods of pathlib.Path, however it was come by. Those that a Disk has too (exists, unlink, rename) are
# not here: a Path cannot be made without an import that is found.
PATH_METHODS = frozenset(
    {
        "hardlink_to",
        "is_dir",
        "is_file",
        "is_symlink",
        "iterdir",
        "lstat",
        "mkdir",
        "read_bytes",
        "read_text",
        "rglob",
        "rmdir",
        "symlink_to",
        "write_bytes",
        "write_text",
    }
)


class Violation(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Import(NamedTuple):
    """`target` is the full dotted name of what is imported; `local` is a name here that means `meaning`."""

    line: int
    target: str
    local: str = ""
    meaning: str = ""


Finding: TypeAlias = tuple[int, str]


class Source(NamedTuple):
    """One parsed module. `path` is relative to the directory that holds the package."""

    path: str
    part: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        tree = ast.parse(text, path)
        part = PurePosixPath(path).parts[1].removesuffix(".py")
        return cls(path, part, tree, tuple(_imports(tree, path)))


def read_sources(root: Path) -> dict[str, str]:
    """Every module of the package in `root`, by its path."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / PACKAGE).rglob("*.py"))
    }


def check(sources: Mapping[str, str]) -> list[Violation]:
    """Everything that breaks a rule, in the order of files and lines."""
    found = set()
    for path, text in sources.items():
        source = Source.parse(path, text)
        found |= {Violation(path, line, message) for rule in RULES for line, message in rule(source)}
        directory = PurePosixPath(path).parent
        if f"{directory}/__init__.py" not in sources:
            found.add(Violation(path, 1, f"{directory} has no __init__.py, so it is not installed"))
    return sorted(found)


# --- imports --------------------------------------------------------------------------------------------


def _imports(tree: ast.Module, path: str) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds a, `import a.b as c` binds a.b.
                meaning = alias.name if alias.asname else alias.name.partition(".")[0]
                yield Import(node.lineno, alias.name, alias.asname or meaning, meaning)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node.level, node.module or "")
            for alias in node.names:
                target = f"{module}.{alias.name}"
                yield Import(node.lineno, target, alias.asname or alias.name, target)
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("import_module", "__import__"):
            yield Import(node.lineno, _imported_by(node))


def _absolute(path: str, level: int, module: str) -> str:
    """The full name of what `from ...module import` means in the file."""
    if not level:
        return module
    package = PurePosixPath(path).parts[:-1]
    return ".".join((*package[: len(package) - level + 1], *([module] if module else ())))


def _imported_by(call: ast.Call) -> str:
    """The module that a call imports; if that is not written there, a name that no table has."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and not first.value.startswith("."):
        return first.value
    return f"{PACKAGE}.<computed>"


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


# --- the rules ------------------------------------------------------------------------------------------


def has_a_row(source: Source) -> Iterator[Finding]:
    if source.part not in MAY_IMPORT:
        yield 1, f"the part {source.part} has no row in MAY_IMPORT"


def imports_point_one_way(source: Source) -> Iterator[Finding]:
    allowed = MAY_IMPORT.get(source.part, frozenset())
    for line, target, _, _ in source.imports:
        package, *rest = target.split(".")
        if package != PACKAGE:
            continue
        part = rest[0] if rest else ""
        if part == source.part or part in PACKAGE_NAMES:
            continue
        if part not in allowed:
            yield line, f"{source.part} may not import {target}"
            continue
        names = ONLY_NAMES.get((source.part, part))
        if names is not None and (len(rest) < 2 or rest[1] not in names):
            yield line, f"{source.part} may take only {', '.join(sorted(names))} from {part}, not {target}"


def libraries_stay_in_their_part(source: Source) -> Iterator[Finding]:
    for line, target, _, _ in source.imports:
        owner = ONLY_IN.get(target.partition(".")[0])
        if owner not in (None, source.part):
            yield line, f"only {owner} may import {target}"


def codecs_know_bytes_only(source: Source) -> Iterator[Finding]:
    if source.part == "codecs":
        for line, target, _, _ in source.imports:
            if target.partition(".")[0] in NOT_IN_CODECS:
                yield line, f"a codec may not import {target}"


def only_disk_touches_files(source: Source) -> Iterator[Finding]:
    if source.path == FILES_ONLY_IN:
        return
    bindings: dict[str, str] = {}
    for line, target, local, meaning in source.imports:
        if target.partition(".")[0] == PACKAGE:
            continue
        if _touches_files(target) and not FILE_MODULES.get(target):
            yield line, f"only {FILES_ONLY_IN} may import {target}"
        else:
            bindings[local] = meaning
    for line, name in _uses(source.tree, bindings):
        if _touches_files(name):
            yield line, f"only {FILES_ONLY_IN} may use {name}"


def _touches_files(name: str) -> bool:
    """Whether a full dotted name means something that reaches the file system."""
    module, _, rest = name.partition(".")
    first = rest.partition(".")[0]
    if module in FILE_MODULES:
        return first not in FILE_MODULES[module]
    if any(name == known or name.startswith(f"{known}.") for known in FILE_NAMES):
        return True
    return name.endswith(".open") or name == "open" or name.rpartition(".")[2] in PATH_METHODS


def _uses(node: ast.AST, bindings: Mapping[str, str]) -> Iterator[Finding]:
    """Names that lead to an import, in full, and those that need none."""
    if isinstance(node, ast.Attribute):
        names = _chain(node)
        if names and names[0] in bindings:
            yield node.lineno, ".".join((bindings[names[0]], *names[1:]))
            return
        if node.attr in PATH_METHODS:
            yield node.lineno, f".{node.attr}"
    elif isinstance(node, ast.Name) and (node.id in bindings or node.id == "open"):
        yield node.lineno, bindings.get(node.id, node.id)
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, bindings)


def _chain(node: ast.expr) -> list[str]:
    """The names of a.b.c; empty if it does not begin with a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)):
        return [*before, node.attr]
    return []


def modules_introduce_themselves(source: Source) -> Iterator[Finding]:
    if not ast.get_docstring(source.tree):
        yield 1, "the module has no docstring"
    if not any(_is_all(statement) for statement in source.tree.body):
        yield 1, "the module has no __all__, a list of names"


def _is_all(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names)):
            return all(isinstance(name, ast.Constant) and isinstance(name.value, str) for name in names)
        case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List(elts=[])):
            return True
    return False


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    has_a_row,
    imports_point_one_way,
    libraries_stay_in_their_part,
    codecs_know_bytes_only,
    only_disk_touches_files,
    modules_introduce_themselves,
)
