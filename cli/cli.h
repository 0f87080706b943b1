/*-------------------------------------------------------------------------
 *
 * cli.h
 *		What the commands of the command line share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_H
#define GPUCREDIT_CLI_H

#include <jansson.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

struct option;

/* exit statuses */
#define CLI_DONE	0
#define CLI_REFUSED	1			/* the database refused, or is away */
#define CLI_USAGE	2			/* the command line or the script is wrong */

/*
 * Whose account, and which database: options before the command, or the
 * environment.
 */
extern const char *cli_program; /* the name it was called by */
extern const char *cli_database;
extern const char *cli_org;
extern const char *cli_account;

extern void Fail(int status, const char *format,...)
			__attribute__((format(printf, 2, 3), noreturn));
extern void *CliAlloc(size_t size);
extern char *CliFormat(const char *format,...)
			__attribute__((format(printf, 1, 2)));
extern int64_t CliNumber(const char *text, int64_t least, int64_t most,
						 const char *what);
extern const char *CliOrg(void);

extern PGresult * CliCall(const char *sql, int n, const char *const *values);
extern PGresult * CliTry(const char *sql, int n, const char *const *values);
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
extern int	CliLogs(int argc, char **argv);
extern int	CliExplain(int argc, char **argv);
extern int	CliBalance(int argc, char **argv);
extern int	CliNodes(int argc, char **argv);
extern int	CliDrain(int argc, char **argv);
extern int	CliResume(int argc, char **argv);
extern int	CliTop(int argc, char **argv);
extern int	CliVerify(int argc, char **argv);
extern int	CliJob(int argc, char **argv);
extern int	CliWait(int argc, char **argv);
extern int	CliHold(int argc, char **argv);
extern int	CliRelease(int argc, char **argv);
extern int	CliSbatch(int argc, char **argv);
extern int	CliSqueue(int argc, char **argv);
extern int	CliSacct(int argc, char **argv);
extern int	CliSeff(int argc, char **argv);
extern int	CliScontrol(int argc, char **argv);
extern int	CliScancel(int argc, char **argv);
extern int	CliSinfo(int argc, char **argv);
extern int	CliSprio(int argc, char **argv);
extern int	CliSshare(int argc, char **argv);

#endif							/* GPUCREDIT_CLI_H */
