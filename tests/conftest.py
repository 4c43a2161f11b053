"""What tests share. Downloads and caches go to the user's own cache folder, made once."""

import os

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
os.environ.setdefault("LANGSMITH_TRACING", "false")
