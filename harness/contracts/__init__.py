"""What streamproof is made of, as contracts: subject, cluster, scenario, kind of fault, query, and the registry of all of them."""
