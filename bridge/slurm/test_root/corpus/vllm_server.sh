#!/bin/bash
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-gpu=8
#SBATCH --mem=180G
#SBATCH --time=UNLIMITED

vllm serve model --tensor-parallel-size 2 --port 8000
