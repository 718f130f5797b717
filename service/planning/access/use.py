"""What one caller took in a while, so that several processes can add up what each of them let through."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Charges of the generic cell rate algorithm, one after the other, as one.

    A charge of c seconds at the moment t makes max(x, t) + c of the moment x at which earlier use is worked off.
    Several make max(x + added_s, until_s) of it, whatever x is: so they can be told without their single moments.
    """

    added_s: float
    until_s: float

    def then(self, later: "Use") -> "Use":
        """This and what was taken afterwards."""
        return Use(added_s=self.added_s + later.added_s, until_s=max(self.until_s + later.added_s, later.until_s))

    def after(self, used_until_s: float) -> float:
        """The moment at which all is worked off where what others took is so at `used_until_s`."""
        return max(used_until_s + self.added_s, self.until_s)
