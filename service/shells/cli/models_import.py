"""`rigfit models import`: GGUF files of this computer into the database's catalogue."""

import sys
from collections.abc import Sequence
from pathlib import Path

from service.catalog.stored_models import user_entry
from service.core.problems import InvalidRequest, Unsupported
from service.planning.files import read_model_file
from service.settings import settings
from service.store.database import open_database, transaction
from service.store.migrations import upgrade
from service.store.models import keep_user_model


def import_models(sources: Sequence[str]) -> None:
    """Read each header and keep it; the file itself is not copied.

    Raises InvalidRequest without a file, Unsupported for an address, UnreadableModel for what is no GGUF.
    """
    if not sources:
        raise InvalidRequest("Name one or more GGUF files: rigfit models import FILE…")
    for source in sources:
        if "://" in source:
            raise Unsupported(f"{source}: models are not fetched from addresses yet; download the file and import it.")
    entries = [
        user_entry(read_model_file(Path(source)), fallback_name=Path(source).stem, source=Path(source).name)
        for source in sources
    ]
    database = open_database(settings().database_url)
    try:
        upgrade(database)
        with transaction(database) as session:
            for entry in entries:
                kept = keep_user_model(session, entry)
                sys.stdout.write(f"{kept.name}:{kept.quant}  {kept.id}\n")
    finally:
        database.dispose()
