"""The way to kafka-python's message classes: each is made when it is first used, and its clients never are.

Importing any part of kafka-python runs its `__init__`, which imports clients, their network and every
message there is; a server that starts needs two. So the package is put in place without being run. Whoever
wants something of the package itself (a client, in a test) runs it by that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, cast

__all__ = ["LazyClass"]

PACKAGE = "kafka"
# Those parts of it that have messages, each with what imports it.
MODULES: Mapping[str, Callable[[], ModuleType]] = {
    "admin": lambda: import_module("kafka.protocol.admin"),
    "consumer": lambda: import_module("kafka.protocol.consumer"),
    "metadata": lambda: import_module("kafka.protocol.metadata"),
    "producer": lambda: import_module("kafka.protocol.producer"),
    "sasl": lambda: import_module("kafka.protocol.sasl"),
}


class _NotRunYet(ModuleType):
    """A package whose parts can be imported. It is run when something is looked for that it lacks."""

    def __getattr__(self, name: str) -> Any:
        spec, package = self.__spec__, cast(ModuleType, self)
        assert spec is not None
        assert spec.loader is not None
        package.__class__ = ModuleType
        spec.loader.exec_module(package)
        return getattr(package, name)


def _put_in_place() -> None:
    if PACKAGE in sys.modules:
        return
    spec = find_spec(PACKAGE)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {PACKAGE!r}", name=PACKAGE)
    package = module_from_spec(spec)
    package.__class__ = _NotRunYet
    # Another thread may have been faster.
    sys.modules.setdefault(PACKAGE, package)


class LazyClass:
    """Stands for a class of kafka.protocol, say "metadata" and "MetadataRequest".

    The classes of its structs, which modules name as they are imported, are lazy as well.
    """

    def __init__(self, module: str, name: str, outer: LazyClass | None = None) -> None:
        self._module = module
        self._outer = outer
        self.__name__ = name

    @cached_property
    def made(self) -> Any:
        """The class itself."""
        if self._outer is not None:
            return getattr(self._outer.made, self.__name__)
        _put_in_place()
        return getattr(MODULES[self._module](), self.__name__)

    def __call__(self, **fields: object) -> Any:
        return self.made(**fields)

    def __getattr__(self, name: str) -> Any:
        if name[0].isupper() and not name.isupper():
            return LazyClass(self._module, name, self)
        return getattr(self.made, name)
