"""The endpoint for clients over TCP: frames of proto/client.proto, pipelined, in any order."""
