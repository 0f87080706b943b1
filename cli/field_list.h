/*-------------------------------------------------------------------------
 *
 * field_list.h
 *		Parses and prints lists of fields such as "JobID,State%20", for sacct
 *		and sshare.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_FIELD_LIST_H
#define GPUCREDIT_CLI_FIELD_LIST_H

#include <libpq-fe.h>
#include <stdbool.h>

/*
 * A field's name and its SQL expression. A table of fields ends with a NULL
 * name.
 */
typedef struct NamedField
{
	const char *name;
	const char *sql;
} NamedField;

/* The format in which a list is printed. */
typedef enum FieldListForm
{
	FIELDS_TABLE,
	FIELDS_BARS,				/* fields are separated by | */
	FIELDS_BARS_END,			/* fields are separated by |, and each line
								 * ends with one */
	FIELDS_JSON
} FieldListForm;

extern char *FieldListSelect(const NamedField *fields, const char *format);
extern void FieldListNames(const NamedField *fields);
extern void FieldListPrint(const PGresult * result, FieldListForm form,
						   bool heading);

#endif							/* GPUCREDIT_CLI_FIELD_LIST_H */
