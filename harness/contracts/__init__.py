"""The contracts: subject, cluster, scenario, kind of fault, query; and the registry, where they are found by name."""
