/*-------------------------------------------------------------------------
 *
 * field_list.h
 *		Lists of fields such as "JobID,State%20", of sacct and sshare.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_FIELD_LIST_H
#define GPUCREDIT_CLI_FIELD_LIST_H

#include <libpq-fe.h>
#include <stdbool.h>

/* A field's name, and its SQL.  A table of them ends with name NULL. */
typedef struct NamedField
{
	const char *name;
	const char *sql;
} NamedField;

/* How a list is printed. */
typedef enum FieldListForm
{
	FIELDS_TABLE,
	FIELDS_BARS,				/* with | between fields */
	FIELDS_BARS_END,			/* and one at the end of each line */
	FIELDS_JSON
} FieldListForm;

extern char *FieldListSelect(const NamedField *fields, const char *format);
extern void FieldListNames(const NamedField *fields);
extern void FieldListPrint(const PGresult * result, FieldListForm form,
						   bool heading);

#endif							/* GPUCREDIT_CLI_FIELD_LIST_H */
