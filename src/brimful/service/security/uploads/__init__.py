"""Files that users send: which kinds are taken, and what is looked at before one is kept. Nothing is run or unpickled,
and no table or tensor is read: that is left to the job's own process."""

from .archives import ARCHIVE, unpack
from .kinds import KINDS, check_file, kind_of

__all__ = ["ARCHIVE", "KINDS", "check_file", "kind_of", "unpack"]
