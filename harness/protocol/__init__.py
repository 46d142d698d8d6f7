"""What hosts a slice, in every world: the slice as a machine without I/O, its host, the manager, the controller, stores."""
