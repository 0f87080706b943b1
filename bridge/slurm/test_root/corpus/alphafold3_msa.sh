#!/bin/bash
#SBATCH --job-name=af3-msa
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=100G
#SBATCH --time=06:00:00

apptainer exec af3.sif python run_alphafold.py --norun_inference --json_path=in.json
