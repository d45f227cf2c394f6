"""Where tasks run: processes of this machine, Dask, Ray and Slurm."""
