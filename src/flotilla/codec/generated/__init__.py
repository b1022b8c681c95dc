"""Made from proto/*.proto by `make proto`. Never edited; imported by flotilla.codec alone."""
