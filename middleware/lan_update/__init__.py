"""The LAN update layer: information kept the same on nodes that halt and recover (paper 004)."""
