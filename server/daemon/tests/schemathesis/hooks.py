"""What the schema cannot say of its strings: formats of Tollgate, as strategies."""

import schemathesis
from hypothesis import strategies as st

PERIODS = ["s", "5s", "min", "10min", "h", "d", "w"]
LIMIT = st.builds(lambda count, period: f"{count}/{period}", st.integers(1, 1_000_000), st.sampled_from(PERIODS))
LIMITS = LIMIT | LIMIT.map(lambda limit: limit + " gcra") | LIMIT.map(lambda limit: limit + " fixed")
POLICY = st.lists(LIMITS, min_size=1, max_size=3, unique_by=lambda limit: limit.split("/")[1]).map(", ".join)
KEY = st.text(min_size=1, max_size=128).filter(lambda key: 1 <= len(key.encode()) <= 512)

schemathesis.openapi.format("tollgate-policy", POLICY)
schemathesis.openapi.format("tollgate-key", KEY)
# A server keeps at most a thousand names apart.
schemathesis.openapi.format("tollgate-name", st.sampled_from([f"name-{number}" for number in range(50)]))


def has_parts(body):
    """Parts are for policies whose keys are made of them, and the schema cannot say which those are."""
    if not isinstance(body, dict):
        return False
    items = body.get("items")
    items = items if isinstance(items, list) else []
    return "parts" in body or any(isinstance(item, dict) and "parts" in item for item in items)


@schemathesis.hook
def filter_body(context, body):
    return not has_parts(body)


@schemathesis.hook
def before_add_examples(context, examples):
    """Examples of the schema do not pass the filter."""
    examples[:] = [case for case in examples if not has_parts(case.body)]
