"""Tables: .parquet. Only the footer is read, with limits on what it may make the reader allocate."""

from typing import Any, BinaryIO

from .refusal import refused

_MAGIC = b"PAR1"
_LARGEST_FOOTER = 16 * 2**20
_MOST_NODES = 100_000  # of lists in the footer: columns, row groups


def check_parquet(file: BinaryIO, size: int, name: str, unpacked: int) -> None:
    """Its footer is sound, its columns lie inside the file, and it has at most `unpacked` bytes once decompressed."""
    import pyarrow as pa  # tens of megabytes, which a server that gets no such file has no use for
    import pyarrow.parquet as pq

    if size < 12 or file.read(4) != _MAGIC:
        raise refused(name, "it does not begin as Parquet does; write it again with pyarrow, pandas or polars")
    file.seek(size - 8)
    length = int.from_bytes(file.read(4), "little")
    if file.read(4) != _MAGIC or not 0 < length <= min(size - 12, _LARGEST_FOOTER):
        raise refused(name, f"its footer has {length} bytes of {size}, or is encrypted; write it again")
    file.seek(0)
    try:
        footer = pq.ParquetFile(
            file, thrift_string_size_limit=_LARGEST_FOOTER, thrift_container_size_limit=_MOST_NODES
        ).metadata
        total = _column_bytes(footer, size - 8 - length)
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise refused(name, f"its footer cannot be read ({str(error)[:200]}); write it again") from error
    if total > unpacked:
        raise refused(name, f"it takes {total} bytes once it is read, and {unpacked} are allowed; send less")


def _column_bytes(footer: Any, end: int) -> int:
    """Bytes of all columns, decompressed; they lie before `end`."""
    total = 0
    for group in range(footer.num_row_groups):
        rows = footer.row_group(group)
        if rows.num_rows < 0:
            raise ValueError(f"row group {group} has {rows.num_rows} rows")
        for place in range(rows.num_columns):
            column = rows.column(place)
            starts = [column.data_page_offset]
            if column.has_dictionary_page and column.dictionary_page_offset is not None:
                starts.append(column.dictionary_page_offset)
            first, length = min(starts), column.total_compressed_size
            if first < 4 or length < 0 or first + length > end or column.total_uncompressed_size < 0:
                raise ValueError(f"column {place} of row group {group} lies outside the file")
            if column.file_path:
                raise ValueError(f"column {place} of row group {group} lies in another file")
            total += column.total_uncompressed_size
    return total
