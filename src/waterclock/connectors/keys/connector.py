"""The connection type `keys`: the secrets of functions such as `hash_keyed` and `encrypt`, each with a name.

Connection      `key.NAME`: a secret. `current`: the name of the key for new values.
Unit            There is none: nothing is collected from such a connection or published to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from waterclock.connectors.interface import ConnectionType, Setting
from waterclock.flow.capabilities import Capabilities, Driver, InvalidOption, Option
from waterclock.flow.key_connections import CURRENT, KEY_NAME, KEYS, PREFIX, names_of_keys


def _wrong_options(_what: str, options: Mapping[str, Any], _path: str) -> Iterator[InvalidOption]:
    """Yield an error for each key whose name cannot be used, and for a `current` that names no key."""
    names = names_of_keys(options)
    for name in names:
        if re.fullmatch(KEY_NAME, name) is None:
            yield InvalidOption(
                "E223",
                PREFIX + name,
                f"a key cannot be called {name}",
                "the name is a part of each encrypted text",
                "use 1 to 64 letters, digits, underscores and hyphens, as in key.2026",
            )
    current = options.get(CURRENT)
    if current is not None and current not in names:
        yield InvalidOption(
            "E223",
            CURRENT,
            f"current names {current}, and there is no option {PREFIX}{current}",
            f"the keys are {', '.join(names)}" if names else "the connection has no keys",
            f"write current '{names[-1]}', or add {PREFIX}{current}" if names else f"add {PREFIX}{current}",
        )


def _refuse(setting: Setting) -> NoReturn:
    raise AssertionError(f"{setting.name} holds keys and no rows, so `check` refuses it as a source or destination")


CAPABILITIES = Capabilities(
    KEYS,
    connection_options={
        f"{PREFIX}*": Option(is_secret=True, help="a key of at least 32 random characters, as a secret"),
        CURRENT: Option(is_required=True, help="the name of the key for new values, as in current '2026'"),
    },
    wrong_options=_wrong_options,
    driver=Driver("cryptography", extra="keys"),
)
CONNECTOR = ConnectionType(CAPABILITIES, _refuse, _refuse)
