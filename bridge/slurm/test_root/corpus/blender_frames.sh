#!/bin/bash
#SBATCH --array=1-240%24
#SBATCH --gpus-per-node=1
#SBATCH -t 0:15:00

blender -b scene.blend -f $SLURM_ARRAY_TASK_ID
