"""A stream of server-sent events, read as it comes: bytes in any portions, messages out.

The format is that of the HTML standard: fields by line, a blank line ends a message, lines end in LF, CR or CRLF, a
line that begins with a colon is a comment (which keeps a quiet connection open).
"""

import codecs
import re
from dataclasses import dataclass

_LINE_END = re.compile("\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its data, the kind of event that it is, and the id that a later connection may go on from."""

    data: str
    event: str = "message"
    id: str = ""


class MessageReader:
    """Makes messages from the bytes of one connection.

    Attributes:
        retry: seconds that the server asks a client to wait before it connects again; None where it asks for nothing.

    Example:
        >>> reader = MessageReader()
        >>> reader.feed(b"id: 7\\ndata: fir")
        []
        >>> reader.feed(b"st\\n\\n")
        [Message(data='first', event='message', id='7')]
    """

    def __init__(self, last_id: str = "") -> None:
        self.retry: float | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text, self._first = "", True
        self._data: list[str] = []
        self._event, self._id = "", last_id

    def feed(self, portion: bytes) -> list[Message]:
        """The messages that are complete with these bytes."""
        self._text += self._decoder.decode(portion)
        if self._first and self._text:
            self._text, self._first = self._text.removeprefix("\ufeff"), False
        messages, start = [], 0
        for end in _LINE_END.finditer(self._text):
            if end.end() == len(self._text) and end.group() == "\r":
                break  # its LF may be in the next bytes
            if message := self._line(self._text[start : end.start()]):
                messages.append(message)
            start = end.end()
        self._text = self._text[start:]
        return messages

    def _line(self, line: str) -> Message | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry = int(value) / 1000
        return None

    def _complete(self) -> Message | None:
        data, event = self._data, self._event or "message"
        self._data, self._event = [], ""
        return Message("\n".join(data), event, self._id) if data else None
