"""The server extension: what the browser sees of the store and the machine, and the few things it may ask for."""
