#!/bin/bash
#SBATCH --mem=10G
#SBATCH --mem-per-cpu=2G

true
# refused: --mem
