"""What the names of a request stand for: models by catalogue name, address or file, and the catalogues themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.contract.model_reference import ModelPath, ModelReference, ModelUrl
from service.core.problems import InvalidRequest, Unsupported
from service.core.types import Model
from service.planning.catalogues import Catalogues
from service.planning.files import read_model_file
from service.planning.model_hosts import RemoteModels


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an engine's planning looks names up; safe to share between threads.

    may_read_files: whether a request may name a file of this computer. remote: gives what fetches models by address;
    None where they are not fetched.
    """

    catalogues: Catalogues
    may_read_files: bool = False
    remote: Callable[[], RemoteModels] | None = None

    def hosts(self) -> RemoteModels:
        """What fetches models by address; raises Unsupported where they are not fetched."""
        if self.remote is None:
            raise Unsupported("Models are not fetched from addresses here.", fields=("model.url",))
        return self.remote()

    def model(self, reference: ModelReference) -> tuple[Model, Sequence[str]]:
        """The GGUF model that a reference names, and what was read into its name; raises PlanProblem."""
        if isinstance(reference, ModelUrl):
            return self.hosts().model(reference.url), ()
        if isinstance(reference, ModelPath):
            if not self.may_read_files:
                raise InvalidRequest("A path names a file only on the command line.", fields=("model.path",))
            return read_model_file(Path(reference.path)), ()
        models = self.catalogues.models
        resolved = models.resolve(reference)
        return models.model(resolved.row), resolved.notes
