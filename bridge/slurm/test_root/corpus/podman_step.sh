#!/bin/bash
#SBATCH --gpus=1
#SBATCH --cpus-per-task=4

podman run --rm --device nvidia.com/gpu=all pytorch python -c 'import torch'
