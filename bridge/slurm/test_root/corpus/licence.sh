#!/bin/bash
#SBATCH --licenses=matlab:1
#SBATCH --ntasks=1

matlab -batch run
# refused: --licenses
