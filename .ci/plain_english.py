"""Report forbidden words in identifiers and in the first lines of docstrings; CONTRIBUTING.md has the rules.

The strings below attributes and constants are docstrings too.

usage: python .ci/plain_english.py [FILE ...]        default: every Python file of the repository
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WORDS = frozenset(
    {
        *("said", "say", "says", "told", "tell", "tells", "found", "mine", "own", "there", "whoever"),
        *("somebody", "nobody", "anybody", "theirs", "ours", "likewise", "anew"),
    }
)
"""Words that no identifier contains and no first line of a docstring uses."""

PRONOUNS = frozenset({"one", "ones", "another", "others", "thing", "things", "what", "who"})
"""Words that are no identifier by themselves."""

IN_PROSE = re.compile(
    rf"\b({'|'.join(sorted(WORDS))}|one's|(?:this|that|the|each|every|which|other) one|ones|what)\b", re.IGNORECASE
)
CLAUSE = re.compile(r"(What|Which|Who|How|Where)\b")
"""A first line that begins with one of these names no thing and no action."""

CODE = re.compile(r"`[^`]*`")
"""Code in a docstring, which is not checked."""

Finding = tuple[int, str]


def words_of(identifier: str) -> list[str]:
    """Lower-case words of a snake_case or CamelCase identifier."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)]


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines or assigns."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and first line of every docstring, also of attributes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.partition("\n")[0]
            for assignment, statement in itertools.pairwise(node.body):
                match assignment, statement:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                        yield statement.lineno, inspect.cleandoc(text).partition("\n")[0]


def findings(source: str) -> list[Finding]:
    """Line and message of every violation in a module's source."""
    tree = ast.parse(source)
    errors: list[Finding] = []
    for line, name in identifiers(tree):
        bad = WORDS.intersection(words_of(name)) or PRONOUNS.intersection({name.lower()})
        if bad:
            errors.append((line, f"identifier {name!r}: forbidden word {min(bad)!r}"))
    for line, text in docstrings(tree):
        match = IN_PROSE.search(CODE.sub("", text)) or CLAUSE.match(text)
        if match:
            errors.append((line, f"docstring {text!r}: forbidden {match[0]!r}"))
    return sorted(set(errors))


def main(arguments: list[str]) -> int:
    """Print every violation; return the exit code."""
    if arguments:
        paths = [Path(argument) for argument in arguments]
    else:
        listed = subprocess.run(
            ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        paths = [ROOT / name for name in listed]
    count = 0
    for path in paths:
        for line, message in findings(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {message}")
            count += 1
    print(f"{count} forbidden words" if count else "plain English: no forbidden words")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
