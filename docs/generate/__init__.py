"""Pages that are generated from the registry, the schema, the parsers and the stored results, at each build."""

from __future__ import annotations

from pathlib import Path

from docs.generate import algorithms, assets, command_line, config_reference, names, tasks

MODULES = (names, tasks, assets, algorithms, command_line, config_reference)
"""Each has `pages() -> {path below the folder: Markdown}`."""


def write_pages(folder: Path) -> None:
    """Write all generated pages into a folder, in place of its content; pages without a change keep their time.

    Args:
        folder: `docs/generated`, which is beside the pages that link to it.
    """
    pages = {folder / name: text for module in MODULES for name, text in module.pages().items()}
    for left in set(folder.rglob("*.md")) - set(pages):
        left.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads changed pages only
            path.write_text(text, encoding="utf-8")
