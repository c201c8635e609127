"""The REST API: routes over `Service`, errors as problem+json, and the OpenAPI description, whose schemas of configs
come from the registry."""
