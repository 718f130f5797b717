"""What can be uploaded as a job, by the name that is recorded with it."""

from collections.abc import Mapping
from typing import Final

from service.planning.queue.documents import JSON_KIND, JSONL_KIND
from service.planning.queue.kinds import Kind
from service.planning.queue.tables import CSV_KIND, XLSX_KIND

KINDS: Final[Mapping[str, Kind]] = {"csv": CSV_KIND, "xlsx": XLSX_KIND, "json": JSON_KIND, "jsonl": JSONL_KIND}
