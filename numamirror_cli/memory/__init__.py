"""Where pages are: numa_maps, move_pages, policies, threads, the status page of the shim."""
