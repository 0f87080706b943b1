#!/bin/bash
#SBATCH --job-name=AF2
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:a100:1
#SBATCH --mem=60G
#SBATCH --time=24:00:00
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=someone@example.org

export TF_FORCE_UNIFIED_MEMORY=1
singularity run --nv -B /data alphafold.sif --fasta_paths=$1 --max_template_date=2022-01-01 --output_dir=$PWD/out
