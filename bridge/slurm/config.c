/*-------------------------------------------------------------------------
 *
 * config.c
 *		Reads the configuration file of the Slurm bridge, and its file of
 *		accounts.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "settings.h"
#include "slurm.h"

SlurmConfig slurm = {
	.database = "",
	.pool = "slurm",
	.tier = "standard_training",
	.socket = "/run/gpucredit/slurm.socket",
	.accounts = "/etc/gpucredit/slurm-accounts",
	.hold_window = "",
	.refuse = "",
	.bin = "/usr/bin",
	.records = "/var/lib/gpucredit-slurm",
	.interval_ms = 2000,
	.grace_s = 90,
};

static const Setting settings[] = {
	{"database", &slurm.database, NULL, 0, 0},
	{"pool", &slurm.pool, NULL, 0, 0},
	{"tier", &slurm.tier, NULL, 0, 0},
	{"socket", &slurm.socket, NULL, 0, 0},
	{"accounts", &slurm.accounts, NULL, 0, 0},
	{"hold_window", &slurm.hold_window, NULL, 0, 0},
	{"refuse", &slurm.refuse, NULL, 0, 0},
	{"bin", &slurm.bin, NULL, 0, 0},
	{"records", &slurm.records, NULL, 0, 0},
	{"interval_ms", NULL, &slurm.interval_ms, 100, 600000},
	{"grace_s", NULL, &slurm.grace_s, 0, 3600},
};

#define SETTINGS	((int) (sizeof(settings) / sizeof(settings[0])))

static bool
no_other(const char *name, const char *value, const char *path, int line)
{
	(void) name;
	(void) value;
	(void) path;
	(void) line;
	return false;
}

void
SlurmConfigRead(const char *path)
{
	SettingsRead(path, settings, SETTINGS, no_other);
}

/*
 * Finds the account whose credit a Slurm account spends. The file is read each
 * time, so that a new line takes effect at once. Returns false if the file has
 * no line for the Slurm account.
 */
bool
PayerFind(const char *slurm_account, SlurmPayer *payer)
{
	FILE	   *file = fopen(slurm.accounts, "r");
	char		line[1024];
	char		name[256];
	char		org[256];
	char		path[256];
	bool		found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
	{
		*path = '\0';
		if (sscanf(line, "%255s %255s %255s", name, org, path) < 2 ||
			*name == '#' || strcmp(name, slurm_account) != 0)
			continue;
		payer->org = Dup(org);
		payer->account = Dup(path);
		found = true;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

void
PayerFree(SlurmPayer *payer)
{
	free(payer->org);
	free(payer->account);
}
