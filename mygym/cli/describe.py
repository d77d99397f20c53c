"""`mygym describe`: describe a component."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mygym.cli.arguments import registry_kind
from mygym.cli.command import JSON, argument, command
from mygym.cli.descriptions import describe_component, describe_task
from mygym.errors import ConfigError, bad_value
from mygym.registry import REGISTRIES, registry
from mygym.runs.files import to_yaml

PARSER = command(
    "mygym describe",
    "Describe a component: parameters, sizes, units, requirements.",
    argument("kind", metavar="KIND", help=f"{', '.join(REGISTRIES)}; algo is short for algorithm"),
    argument(
        "name", metavar="NAME", help="a name of `mygym list KIND`, a URDF or YAML file, or a task as letters or a list"
    ),
    JSON,
    argument("--yaml", action="store_true", help="print the complete config of an algorithm"),
    argument("--framework", default="pytorch", metavar="F", help="framework of that config: pytorch (default) or jax"),
    examples="""
mygym describe task push
mygym describe task "[approach, poke]"
mygym describe algo sac
mygym describe algo sac --yaml > sac.yaml     a config with every value, ready to run
mygym describe robot panda --json
mygym describe robot path/to/arm.urdf         properties inferred from a URDF
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    kind = registry_kind(options.kind)
    if options.yaml:
        if kind != "algorithm":
            raise ConfigError(bad_value("--yaml", kind, ["algorithm"], "has no run config"))
        print(complete_config(options.name, options.framework), end="")
        return
    content = describe_task(options.name) if kind == "task" else describe_component(registry(kind).get(options.name))
    text = json.dumps(content, indent=2, default=str)
    print(f"{text}\n" if options.json else to_yaml(json.loads(text)), end="")


def complete_config(name: str, framework: str) -> str:
    """Return the YAML config of an algorithm with every value and `strict: true`."""
    from mygym.runs.built_config import explained
    from mygym.runs.planning.resolve_config import resolve_config

    resolved = resolve_config(overrides={"algo": name, "framework": framework})
    values = {**explained(resolved).values(), "strict": True}
    line = f"mygym describe algo {name}{'' if framework == 'pytorch' else f' --framework {framework}'} --yaml"
    help = registry("algorithm").get(name).help
    return f"# {help}\n# every value written out, as printed by: {line}\n{to_yaml(values)}"
