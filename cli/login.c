/*-------------------------------------------------------------------------
 *
 * login.c
 *		gpucredit login: signs in at gpucreditd by an identity provider.
 *
 * It needs no login of the database and speaks HTTP alone, so it is a program
 * of its own, gpucredit-login, which stands beside this one.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int
CliLogin(int argc, char **argv)
{
	char		self[PATH_MAX];
	ssize_t		length = readlink("/proc/self/exe", self, sizeof(self));
	char	   *slash;
	char	   *program;

	(void) argc;
	if (length < 0 || length >= (ssize_t) sizeof(self))
		Fail(CLI_REFUSED, "could not find this program's file: %s",
			 length < 0 ? strerror(errno) : "its path is too long");
	self[length] = '\0';
	slash = strrchr(self, '/');
	program = Format("%.*s/gpucredit-login", (int) (slash - self), self);
	argv[0] = program;
	execv(program, argv);
	Fail(CLI_REFUSED, "could not run %s: %s", program, strerror(errno));
}
