"""The pages that `brimful serve` shows in a browser; `mount` puts them beside the REST API."""
