#!/bin/bash
#SBATCH --job-name=af3-inf
#SBATCH -G 1
#SBATCH -c 4
#SBATCH --mem-per-gpu 80G
#SBATCH --time=02:00:00
#SBATCH --dependency=singleton

apptainer exec --nv af3.sif python run_alphafold.py --norun_data_pipeline --json_path=out/in.json
