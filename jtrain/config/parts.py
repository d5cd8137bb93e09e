"""From the name of a part to the object it names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from jtrain.errors import ConfigError, nearest


def find_object(name: str, where: str, known: Mapping[str, Any], namespace: Mapping[str, Any]) -> Any:
    """The object called `name`: a variable of the notebook (`namespace`), one of jtrain's (`known`), or an import path.

    `where` ("training.loss") is named in errors. Raises ConfigError with the nearest name when there is no such object.
    """
    if name in namespace:
        return namespace[name]
    if name in known:
        return known[name]
    if ":" in name or "." in name:
        return _import(name, where)
    close = nearest(name, [*known, *namespace])
    hint = f"; did you mean {close}?" if close else ""
    raise ConfigError(f"{where}: nothing is called {name!r}{hint} (an import path looks like package.module:Name)")


def _import(name: str, where: str) -> Any:
    module_name, colon, attributes = name.partition(":")
    if not colon:
        module_name, _, attributes = name.rpartition(".")
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{where}: importing {module_name} failed: {error}") from error
        raise ConfigError(f"{where}: there is no module {error.name!r}, wanted by {name!r}") from error
    except ImportError as error:
        raise ConfigError(f"{where}: importing {module_name} failed: {error}") from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            close = nearest(attribute, dir(found))
            hint = f"; did you mean {close}?" if close else ""
            raise ConfigError(f"{where}: {getattr(found, '__name__', found)} has no {attribute!r}{hint}")
        found = getattr(found, attribute)
    return found
