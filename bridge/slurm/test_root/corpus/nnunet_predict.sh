#!/bin/bash
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=32000
#SBATCH -t 4:00:00

nnUNetv2_predict -i imagesTs -o out -d 501 -c 3d_fullres -f 0 1 2 3 4
