"""Roamcast's protocol cores: sans-IO, standard library only."""
