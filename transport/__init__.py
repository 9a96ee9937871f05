"""Wire format, codec, keys and sockets: everything between a core and the network."""
