"""What commands share: addresses, output as tables or JSON, progress, exit codes, and how values are written."""
