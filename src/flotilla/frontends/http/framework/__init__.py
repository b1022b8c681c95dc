"""From HTTP requests to operations: routes, parameters, schemas, limits, errors and the OpenAPI document.

What the operations do lives in `api/`.
"""
