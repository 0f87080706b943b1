#!/bin/bash
#SBATCH -n 1
#SBATCH --mem=4000M
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

[ -e ckpt.sh ] && ./ckpt.sh || dmtcp_launch -i 3600 ./simulate
