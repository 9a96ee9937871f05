"""The simulator of the LAN update layer: nodes that halt and recover, with its own judge and study."""
