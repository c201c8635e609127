"""Where batches come from: rows on the device, rows on the host, or chunks read ahead. All give the same batches."""
