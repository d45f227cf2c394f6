"""Where tasks run: processes of this machine, Dask, batch systems through dask-jobqueue, and Ray."""
