#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --time=00:10:00
#SBATCH --mem=1G

a=$(sbatch --parsable prepare.sh)
b=$(sbatch --parsable --dependency=afterok:$a train.sh)
sbatch --dependency=afterok:$b,afterany:$a report.sh
