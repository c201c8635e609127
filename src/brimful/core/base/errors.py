"""Every exception Brimful raises, in one tree.

    BrimfulError
    ├── BudgetError          the budget is malformed, or the smallest step does not fit it
    ├── CancelledError       a run was cancelled; what it had finished is kept
    ├── ConfigError          an option's value is wrong
    ├── DeviceError          a device that is not there, or that can no longer be used
    ├── DivergedError        training gave nothing finite, too many times in a row
    ├── InputError           the data handed in cannot be worked on
    ├── MissingExtraError    an optional dependency is not installed
    ├── RunDirError          a run directory cannot be used
    │   ├── LockedError      another process is writing to it
    │   ├── ChangedError     it was made from another config or input
    │   └── CorruptError     a file in it is damaged
    ├── StorageError         the disk is full, read-only or gone
    └── WorkerError          a worker process died or could not start

A caller's mistake is an exception. An item that fails is not: it is a status and a message in the result.
Each message names the value at fault and ends with what to do.
"""

from collections.abc import Iterable


class BrimfulError(Exception):
    """Base of all errors that Brimful raises on purpose; the command line shows them without a traceback.

    Attributes:
        option: the name of the option at fault, where it is known to be one.
    """

    option: str | None = None


class BudgetError(BrimfulError):
    """The budget cannot be understood, or the smallest possible step does not fit it."""


class CancelledError(BrimfulError):
    """A run was cancelled, from whatever thread. What it had finished is kept, and the same call goes on from there."""


class ConfigError(BrimfulError):
    """An option has a value outside its type, range or choices."""


class DeviceError(BrimfulError):
    """The named device does not exist here, or can no longer be used by this process."""


class DivergedError(BrimfulError):
    """The loss or its gradient was not finite in too many steps in a row."""


class InputError(BrimfulError):
    """The data handed in has the wrong type, shape or length."""


class MissingExtraError(BrimfulError):
    """A feature needs a package that is an extra of Brimful and is not installed."""


class RunDirError(BrimfulError):
    """A run directory cannot be used."""


class LockedError(RunDirError):
    """Another process is writing to the run directory."""


class ChangedError(RunDirError):
    """The run directory was made from another config or input, so it cannot be resumed with this one."""


class CorruptError(RunDirError):
    """A file that Brimful wrote is damaged."""


class StorageError(BrimfulError):
    """Writing failed: the disk is full, read-only or gone. What was finished before is intact."""


class WorkerError(BrimfulError):
    """A worker process died or could not be started."""


class BrimfulWarning(UserWarning):
    """Something the user should know that did not stop the work."""


def raise_first(faults: Iterable[tuple[object, str]], error: type[BrimfulError] = InputError) -> None:
    """Raises the first fault there is: each is whether it is there, and the sentence that says so."""
    for wrong, sentence in faults:
        if wrong:
            raise error(sentence)
