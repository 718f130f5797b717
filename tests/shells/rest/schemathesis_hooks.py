"""What schemathesis has to be told to write the bodies of this service; loaded by schemathesis.toml."""

import schemathesis

schemathesis.serializer.alias("application/jsonl", "text/plain")
