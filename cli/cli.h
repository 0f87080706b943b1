/*-------------------------------------------------------------------------
 *
 * cli.h
 *		Declarations that the commands of the command line share.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_H
#define GPUCREDIT_CLI_H

#include <jansson.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory.h"

struct option;

/* Exit statuses */
#define CLI_DONE	0
#define CLI_REFUSED	1			/* the database refused the call, or cannot be
								 * reached */
#define CLI_USAGE	2			/* the command line or the script is wrong */

/*
 * The database and the account, from options before the command or from the
 * environment.
 */
extern const char *cli_program; /* the name by which the program was called */
extern const char *cli_database;
extern const char *cli_org;
extern const char *cli_account;

extern void Fail(int status, const char *format,...)
			__attribute__((format(printf, 2, 3), noreturn));
extern int64_t CliNumber(const char *text, int64_t least, int64_t most,
						 const char *what);
extern const char *CliOrg(void);

extern PGresult * CliCall(const char *sql, int n, const char *const *values);
extern PGresult * CliTry(const char *sql, int n, const char *const *values);
extern PGresult * CliRepeat(const char *sql, int n, const char *const *values,
							int patience);
extern bool CliRetries(const PGresult * result);
extern void CliRefused(const PGresult * result)
			__attribute__((noreturn));
extern void CliPrintRefusal(const char *job, const PGresult * result);
extern char *CliKey(void);
extern bool CliFlag(int *argc, char **argv, const char *word);
extern json_t * CliJsonRow(const PGresult * result, int row);
extern json_t * CliJsonRows(const PGresult * result);
extern void CliPrintJson(json_t * document);
extern void CliShow(const PGresult * result, bool json);
extern void CliTable(const PGresult * result, bool heading);

/* options.c */
extern void CliHelp(const char *use, const struct option *options,
					const char *letters);
extern int	CliNextOption(const char *use, const struct option *options,
						  const char *letters, int argc, char **argv);
extern void CliBadOption(int option, const struct option *options,
						 char **argv) __attribute__((noreturn));

extern int	CliSubmit(int argc, char **argv);
extern int	CliQueue(int argc, char **argv);
extern int	CliCancel(int argc, char **argv);
extern int	CliLogin(int argc, char **argv);
extern int	CliLogs(int argc, char **argv);
extern int	CliExplain(int argc, char **argv);
extern int	CliBalance(int argc, char **argv);
extern int	CliNodes(int argc, char **argv);
extern int	CliDrain(int argc, char **argv);
extern int	CliResume(int argc, char **argv);
extern int	CliTop(int argc, char **argv);
extern int	CliVerify(int argc, char **argv);
extern int	CliImport(int argc, char **argv);
extern int	CliJob(int argc, char **argv);
extern int	CliWait(int argc, char **argv);
extern int	CliAttach(int argc, char **argv);
extern int	CliForward(int argc, char **argv);
extern int	CliNotebook(int argc, char **argv);
extern int	CliHold(int argc, char **argv);
extern int	CliRequeue(int argc, char **argv);
extern int	CliRelease(int argc, char **argv);
extern int	CliSbatch(int argc, char **argv);
extern int	CliSalloc(int argc, char **argv);
extern int	CliSrun(int argc, char **argv);
extern int	CliSqueue(int argc, char **argv);
extern int	CliSacct(int argc, char **argv);
extern int	CliSeff(int argc, char **argv);
extern int	CliScontrol(int argc, char **argv);
extern int	CliScancel(int argc, char **argv);
extern int	CliSinfo(int argc, char **argv);
extern int	CliSprio(int argc, char **argv);
extern int	CliSshare(int argc, char **argv);

#endif							/* GPUCREDIT_CLI_H */
