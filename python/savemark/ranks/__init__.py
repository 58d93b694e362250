"""Several processes that run a study together: started by MPI, led by the first of them."""
