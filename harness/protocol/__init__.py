"""What hosts a slice, in every world: the slice as a machine without I/O, host, manager, controller, stores."""
