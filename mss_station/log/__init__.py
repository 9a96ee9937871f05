"""The delivery log of a station: its writer, its files, their upload and verification."""
