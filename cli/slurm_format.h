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

#define SLURM_FORMAT_MOST	64	/* most fields of a format */

/*
 * A field with its letter, its heading and its SQL. A list of fields ends with
 * letter 0.
 */
typedef struct SlurmField
{
	char		letter;
	bool		counts;			/* for sinfo: the SQL aggregates the nodes of
								 * a line */
	const char *heading;
	const char *sql;
} SlurmField;

/* The long name of a letter. A list of names ends with a NULL name. */
typedef struct SlurmFieldName
{
	const char *name;
	char		letter;
} SlurmFieldName;

/* One field of a format, and the text that precedes it. */
typedef struct SlurmColumn
{
	char	   *before;
	const SlurmField *field;	/* NULL at the end of the format */
	int			width;			/* 0 for as wide as the content */
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
