"""Tasks over HTTP: messages of task queues, seen as jobs with a state and a result."""
