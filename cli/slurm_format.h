/*-------------------------------------------------------------------------
 *
 * slurm_format.h
 *		Formats of Slurm's lists, such as "%.18i %P" and "JobID:18,Partition".
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_SLURM_FORMAT_H
#define GPUCREDIT_CLI_SLURM_FORMAT_H

#include <libpq-fe.h>
#include <stdbool.h>

#define SLURM_FORMAT_MOST	64	/* fields of a format */

/* A letter of a format: its heading, and its SQL.  A list ends with letter 0. */
typedef struct SlurmField
{
	char		letter;
	bool		counts;			/* sinfo: an aggregate of the nodes in a line */
	const char *heading;
	const char *sql;
} SlurmField;

/* The name of a letter.  A list ends with name NULL. */
typedef struct SlurmFieldName
{
	const char *name;
	char		letter;
} SlurmFieldName;

/* One field of a format, and the text before it. */
typedef struct SlurmColumn
{
	char	   *before;
	const SlurmField *field;	/* NULL: the end of the format */
	int			width;			/* 0: as wide as its content */
	bool		right;
} SlurmColumn;

typedef struct SlurmFormat
{
	int			n;
	SlurmColumn columns[SLURM_FORMAT_MOST + 1];
} SlurmFormat;

extern const SlurmField *SlurmFieldFind(const SlurmField *fields,
										char letter);
extern void SlurmFormatParse(const SlurmField *fields, const char *text,
							 SlurmFormat *format);
extern void SlurmFormatParseNames(const SlurmField *fields,
								  const SlurmFieldName *names,
								  const char *text, SlurmFormat *format);
extern char *SlurmFormatSelect(const SlurmFormat *format);
extern void SlurmFormatPrint(const SlurmFormat *format,
							 const PGresult * result, int first,
							 bool heading);

#endif							/* GPUCREDIT_CLI_SLURM_FORMAT_H */
