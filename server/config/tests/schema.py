"""The schema against the examples, by a validator that is not ours.

Every good example is valid; of the bad ones those that a schema can see are not. Needs jsonschema and pyyaml.
"""

import json
import pathlib
import re
import sys
import tomllib

import jsonschema
import yaml

HERE = pathlib.Path(__file__).parent
# Bad in ways that a schema sees: names, kinds of values, words, bounds.
STRUCTURAL = {
    "alerts.yaml",
    "ban.yaml",
    "comment.yaml",
    "empty.toml",
    "empty.yaml",
    "key_parts.yaml",
    "list.yaml",
    "long.yaml",
    "missing_limit.yaml",
    "names.yaml",
    "no_policies.yaml",
    "note.yaml",
    "nothing.yaml",
    "patterns.yaml",
    "policies_list.yaml",
    "policy_text.toml",
    "policy_text.yaml",
    "switches.yaml",
    "text.yaml",
    "unknown_field.yaml",
    "unknown_file_field.toml",
    "until.toml",
    "until.yaml",
    "webhook.yaml",
    "words.yaml",
}


class Core(yaml.SafeLoader):
    """YAML 1.2's core schema, as editors read policy files: on, off and dates are texts."""


Core.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
]:
    Core.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), list(first))

# Names are texts, whatever they look like.
Core.add_constructor(
    "tag:yaml.org,2002:map",
    lambda loader, node: {name.value: loader.construct_object(value, deep=True) for name, value in node.value},
)


def document(path):
    """A file as JSON would have it: TOML's dates are texts."""
    if path.suffix == ".toml":
        tree = tomllib.loads(path.read_text())
    elif path.suffix == ".json":
        tree = json.loads(path.read_text())
    else:
        tree = yaml.load(path.read_text(), Loader=Core)
    return plain(tree)


def plain(value):
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def main():
    schema = json.loads((HERE.parent / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []
    good = sorted((HERE / "examples/good").iterdir())
    for path in good:
        for error in validator.iter_errors(document(path)):
            wrong.append(f"{path.name} is refused: {error.json_path}: {error.message}")
    for name in sorted(STRUCTURAL):
        if validator.is_valid(document(HERE / "examples/bad" / name)):
            wrong.append(f"{name} is taken")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"schema: {len(good)} good examples taken, {len(STRUCTURAL)} bad ones refused")


if __name__ == "__main__":
    main()
