#!/bin/bash
#SBATCH -J nf-basecall_(3)
#SBATCH -o work/.command.log
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
#SBATCH -c 8
#SBATCH -t 04:00:00
#SBATCH --mem 32768M

bash .command.run
