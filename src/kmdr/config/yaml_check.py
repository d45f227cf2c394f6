"""Checks of YAML files: aliases without end, and numbers that YAML 1.1 reads otherwise than they are written."""

import re
from pathlib import Path
from typing import Any

import yaml

from kmdr.base.errors import UserError, shown

# A configuration file has a few dozen values.
MOST_BYTES = 2**20
_MOST_VALUES = 100_000
# Octal numbers such as 010, and numbers to the base of 60 such as 1:30, with signs, underscores and fractions.
_ODD_NUMBER = re.compile(r"[-+]?0[0-7_]*[1-7_][0-7_]*|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_MAY_BE_ODD = re.compile(r"(?<![\w.])0[0-9_]|[0-9_]:[0-9]")
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def check_yaml(file: Path, text: str, loader: Any = yaml.SafeLoader) -> None:
    """Raise `UserError` for a text that is too long, that its aliases make too large, or that has such a number.

    Parameters
    ----------
    loader : type
        Of PyYAML; its errors of syntax are raised.
    """
    if len(text) > MOST_BYTES:
        raise UserError(f"{file} has more than {MOST_BYTES} characters; remove it from the folder")
    if "&" not in text and not _MAY_BE_ODD.search(text):
        return
    sizes: dict[int, float] = {}

    def size(node: Any) -> float:
        """Return the number of values in a node once its aliases are expanded."""
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # for a node that contains itself
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            items = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
            sizes[id(node)] = 1 + sum(map(size, items))
            if isinstance(node, yaml.ScalarNode):
                _check_number(file, node)
        return sizes[id(node)]

    count = size(yaml.compose(text, loader))
    if count > _MOST_VALUES:
        raise UserError(f"{file} has {count:.0f} values, more than {_MOST_VALUES}; use fewer aliases")


def _check_number(file: Path, node: yaml.ScalarNode) -> None:
    if node.tag not in _NUMBER_TAGS or node.style or not _ODD_NUMBER.fullmatch(node.value):
        return
    base, digits = 60 if ":" in node.value else 8, node.value.replace("_", "")
    if base == 60 or int(digits, 8) != int(digits):
        raise UserError(
            f"{file}, line {node.start_mark.line + 1}: YAML reads {shown(node.value)} as a number to the base of "
            f"{base}; write it in decimal digits without a leading 0, or as a string in quotes"
        )
