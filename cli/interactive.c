/*-------------------------------------------------------------------------
 *
 * interactive.c
 *		salloc and srun outside of a job: a job for as long as this command
 *		runs.
 *
 *     salloc [OPTION...] [COMMAND [ARGUMENT...]]
 *     srun [OPTION...] --pty COMMAND [ARGUMENT...]
 *     srun [OPTION...] COMMAND [ARGUMENT...]
 *
 * The first two open a terminal on the job's first node, as salloc does where
 * a site of Slurm has set use_interactive_step. The job's script waits for the
 * end of the command in that terminal and then ends, and with it all that the
 * command has left. So a job whose user has gone, or whose connection is lost,
 * costs nothing more. The command holds a lock on a file while it runs. The
 * file's name is random, because in the folder of temporary files other users
 * could take a name that they can guess.
 *
 * The last one runs the command as one step of the job, prints its output, and
 * exits with its code. Standard input that is a file goes along in the job's
 * script, from which the step reads it. A pipe may never end, and is not read.
 *
 * Inside a job another srun comes first in the PATH, which starts steps
 * (agent/srun.c).
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <getopt.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "started_job.h"
#include "submission.h"
#include "wait.h"

#define LOOK_US		200000		/* pause between two looks at the job */
#define LEAVE_US	30000000	/* how long a job may take to end by itself */
#define PATIENCE	60			/* seconds to wait for the database, to cancel */
#define INPUT_MOST	(700 * 1024)	/* bytes of standard input; a script has
									 * at most 1 MiB, and this is in base64 */
#define OWN_FIRST	1000		/* values of own options without a letter
								 * begin after this one */

/* What becomes of an option that sbatch does not have, or reads otherwise. */
typedef enum OwnKind
{
	OWN_PTY, OWN_NO_SHELL, OWN_OF_STEP, OWN_NOTHING
} OwnKind;

typedef struct OwnOption
{
	const char *name;
	int			has_arg;
	char		letter;			/* zero if it has none */
	OwnKind		kind;
} OwnOption;

/* What a command line asks for. */
typedef struct Interactive
{
	Words		submit;			/* options of gpucredit submit */
	Words		step;			/* options of the srun inside the job */
	bool		terminal;
	bool		no_shell;		/* salloc leaves the job and ends */
	bool		quiet;
	char	  **command;		/* ends with NULL */
} Interactive;

static const OwnOption salloc_options[] = {
	{"bell", no_argument, '\0', OWN_NOTHING},
	{"kill-command", optional_argument, 'K', OWN_NOTHING},
	{"no-bell", no_argument, '\0', OWN_NOTHING},
	{"no-shell", no_argument, '\0', OWN_NO_SHELL},
	{NULL, 0, '\0', OWN_NOTHING}
};

static const OwnOption srun_options[] = {
	{"cpu-bind", required_argument, '\0', OWN_OF_STEP},
	{"error", required_argument, 'e', OWN_OF_STEP},
	{"exact", no_argument, '\0', OWN_OF_STEP},
	{"input", required_argument, 'i', OWN_OF_STEP},
	{"kill-on-bad-exit", optional_argument, 'K', OWN_OF_STEP},
	{"label", no_argument, 'l', OWN_OF_STEP},
	{"mpi", required_argument, '\0', OWN_OF_STEP},
	{"output", required_argument, 'o', OWN_OF_STEP},
	{"overlap", no_argument, 'O', OWN_OF_STEP},
	{"pty", no_argument, '\0', OWN_PTY},
	{"unbuffered", no_argument, 'u', OWN_OF_STEP},
	{"wait", required_argument, 'W', OWN_OF_STEP},
	{NULL, 0, '\0', OWN_NOTHING}
};

/* $1 of the formats is the random part of the file's name. */
static const char waiting_script[] =
"#!/bin/bash\n"
"# Waits for the end of the command in a terminal.\n"
"lock=${TMPDIR:-/tmp}/gpucredit-terminal-%1$s\n"
"[ \"${SLURM_RESTART_COUNT:-0}\" = 0 ] || {\n"
"\techo 'the terminal was lost when the job was started again' >&2\n"
"\texit 1\n"
"}\n"
"trap 'rm -f \"$lock\" \"$lock.open\"' EXIT\n"
"trap 'exit 0' TERM\n"
"(umask 077; : > \"$lock\") || exit\n"
"for ((i = 0; i < 600; i++)); do\n"
"\t[ ! -e \"$lock.open\" ] || break\n"
"\tsleep 0.2\n"
"done\n"
"[ -e \"$lock.open\" ] || {\n"
"\techo 'nobody opened a terminal' >&2\n"
"\texit 1\n"
"}\n"
"flock \"$lock\" true & wait $!\n";

static const char terminal_command[] =
"lock=${TMPDIR:-/tmp}/gpucredit-terminal-%1$s\n"
"exec 9< \"$lock\" && flock -s 9 && (umask 077; : > \"$lock.open\") || exit\n"
"trap : INT QUIT\n"
"\"$@\" 9<&-\n"
"exit $?\n";

static const char idle_script[] =
"#!/bin/bash\n"
"# Keeps the job's nodes until it is cancelled.\n"
"exec sleep infinity\n";

static volatile sig_atomic_t ended_by;

static void parse(Interactive *asked, int argc, char **argv,
				  const OwnOption *own);
static struct option *all_options(const OwnOption *own, const char **letters);
static void add_option(Words *words, const struct option *option);
static void obey_own(Interactive *asked, const OwnOption *own,
					 const struct option *option);
static int	run_terminal(const Interactive *asked);
static int	run_step(const Interactive *asked);
static char *step_script(const Words *options);
static char *read_input(const Words *options);
static void note_pipe(void);
static void note_signal(int number);
static char *start(const Interactive *asked, const char *script,
				   char *const *args);
static void wait_until_over(const char *job);
static void cancel(const char *job);
static char *random_name(void);

int
CliSalloc(int argc, char **argv)
{
	/* A login shell would set a PATH in which the job's srun is missing. */
	static char bash[] = "bash";
	static char *shell[] = {bash, NULL};
	Interactive asked = {.terminal = true};
	char	   *none = NULL;

	parse(&asked, argc, argv, salloc_options);
	if (asked.no_shell)
	{
		(void) start(&asked, idle_script, &none);
		return CLI_DONE;
	}
	if (asked.command[0] == NULL)
		asked.command = shell;
	return run_terminal(&asked);
}

int
CliSrun(int argc, char **argv)
{
	Interactive asked = {.quiet = true};

	parse(&asked, argc, argv, srun_options);
	if (asked.command[0] == NULL)
		Fail(CLI_USAGE, "no command given to execute");
	return asked.terminal ? run_terminal(&asked) : run_step(&asked);
}

/*
 * Parses the options of sbatch, which go to the submission, and the command's
 * own.
 */
static void
parse(Interactive *asked, int argc, char **argv, const OwnOption *own)
{
	const char *letters;
	const struct option *all = all_options(own, &letters);
	int			option;
	int			index = -1;

	optind = opterr = 0;
	while ((option = getopt_long(argc, argv, letters, all, &index)) != -1)
	{
		const struct option *found = all + index;

		if (option == ':')
			Fail(CLI_USAGE, "option \"%s\" takes a value", argv[optind - 1]);
		if (option == '?')
			OptionRefused(argv[optind - 1], optopt, cli_program);
		/* getopt_long() sets the index for long options only. */
		for (int i = 0; index < 0; i++)
		{
			if (all[i].val == option)
				index = i, found = all + i;
		}
		index = -1;
		if (option == 'h')
		{
			CliHelp(own == srun_options ?
					"usage: srun [OPTION...] COMMAND [ARGUMENT...]" :
					"usage: salloc [OPTION...] [COMMAND [ARGUMENT...]]", all,
					letters);
			exit(CLI_DONE);
		}
		if (option == 'a')
			Fail(CLI_USAGE, "an array is no single job; submit it by sbatch");
		obey_own(asked, own, found);
	}
	asked->command = argv + optind;
}

/*
 * Returns a table for getopt_long(): the command's own options, then those of
 * sbatch that have other names. The letters of the first prevail.
 */
static struct option *
all_options(const OwnOption *own, const char **letters)
{
	const char *of_sbatch;
	const struct option *others = SubmissionOptionTable(&of_sbatch);
	char	   *text = Dup("+:");
	int			n = 0;
	int			size = 1;
	struct option *all;

	for (const OwnOption *o = own; o->name != NULL; o++)
		size++;
	for (const struct option *o = others; o->name != NULL; o++)
		size++;
	all = Alloc(sizeof(struct option) * size);
	for (const OwnOption *o = own; o->name != NULL; o++)
	{
		all[n] = (struct option)
		{
			o->name, o->has_arg, NULL, o->letter == '\0' ? OWN_FIRST + n :
				o->letter
		};
		n++;
		if (o->letter != '\0')
			text = Format("%s%c%s", text, o->letter,
						  o->has_arg == required_argument ? ":" :
						  o->has_arg == optional_argument ? "::" : "");
	}
	for (; others->name != NULL; others++)
	{
		bool		hidden = false;

		for (const OwnOption *o = own; o->name != NULL; o++)
			hidden |= strcmp(o->name, others->name) == 0;
		if (!hidden)
			all[n++] = *others;
	}
	*letters = Format("%s%s", text, of_sbatch + strlen("+:"));
	return all;
}

/*
 * Handles an option: one that is not the command's own goes to the submission.
 * The step needs the number of cpus and the distribution of its tasks as well,
 * which it does not take from the job.
 */
static void
obey_own(Interactive *asked, const OwnOption *own,
		 const struct option *option)
{
	while (own->name != NULL && strcmp(own->name, option->name) != 0)
		own++;
	if (own->name == NULL)
	{
		add_option(&asked->submit, option);
		if (strcmp(option->name, "cpus-per-task") == 0 ||
			strcmp(option->name, "distribution") == 0)
			add_option(&asked->step, option);
	}
	else if (own->kind == OWN_PTY)
		asked->terminal = true;
	else if (own->kind == OWN_NO_SHELL)
		asked->no_shell = true;
	else if (own->kind == OWN_OF_STEP)
		add_option(&asked->step, option);
}

static void
add_option(Words *words, const struct option *option)
{
	WordsAdd(words, optarg == NULL ? Format("--%s", option->name) :
			 Format("--%s=%s", option->name, optarg));
}

/*
 * Runs a command in a terminal of a new job. Returns its exit status.
 */
static int
run_terminal(const Interactive *asked)
{
	char	   *name = random_name();
	char	   *none = NULL;
	char	   *job = start(asked, Format(waiting_script, name), &none);
	Words		words = {NULL, 0};
	int			status;

	WordsAdd(&words, job);
	WordsAdd(&words, "bash");
	WordsAdd(&words, "-c");
	WordsAdd(&words, Format(terminal_command, name));
	WordsAdd(&words, "bash");
	for (char **word = asked->command; *word != NULL; word++)
		WordsAdd(&words, *word);
	status = RunSelf("attach", &words, &ended_by);
	wait_until_over(job);
	if (!asked->quiet)
		fprintf(stderr, "salloc: Relinquishing job allocation %s\n", job);
	return ended_by != 0 ? 128 + ended_by : status;
}

/*
 * Runs a command as a step of a new job, and prints its output. Returns the
 * exit code of the job's program.
 */
static int
run_step(const Interactive *asked)
{
	Interactive submitted = *asked;
	Words		words = {NULL, 0};
	const char *slash = strrchr(asked->command[0], '/');
	int64_t		number;
	char	   *job;

	/* A name that the user gave comes later, and prevails. */
	memset(&submitted.submit, 0, sizeof(Words));
	WordsAdd(&submitted.submit, Format("--job-name=%s", slash == NULL ?
									   asked->command[0] : slash + 1));
	for (int i = 0; i < asked->submit.n; i++)
		WordsAdd(&submitted.submit, asked->submit.word[i]);
	job = start(&submitted, step_script(&asked->step), asked->command);
	number = strtoll(job, NULL, 10);
	WordsAdd(&words, "-f");
	WordsAdd(&words, job);
	(void) RunSelf("logs", &words, &ended_by);
	if (ended_by != 0)
	{
		cancel(job);
		return 128 + ended_by;
	}
	return WaitForJobs(&number, 1, WAIT_SILENT);
}

/*
 * Returns a script that runs its arguments as a step with these options, and
 * with this command's standard input. Each option is quoted, because the script
 * is read by a shell.
 */
static char *
step_script(const Words *options)
{
	char	   *script = Dup("#!/bin/bash\nexec srun");
	char	   *input = read_input(options);

	for (int i = 0; i < options->n; i++)
	{
		script = Format("%s '", script);
		for (const char *at = options->word[i]; *at != '\0'; at++)
			script = *at == '\'' ? Format("%s'\\''", script) :
				Format("%s%c", script, *at);
		script = Format("%s'", script);
	}
	if (input == NULL)
		return Format("%s -- \"$@\"\n", script);
	return Format("%s -- \"$@\" < <(base64 -d <<'INPUT'\n%s\nINPUT\n)\n", script,
				  input);
}

/*
 * Reads standard input to its end, if it is a file and no option of the step
 * names another one. Returns it in base64, or NULL if there is none.
 */
static char *
read_input(const Words *options)
{
	unsigned char *bytes;
	char	   *text;
	struct stat file;
	size_t		len = 0;
	ssize_t		n;

	for (int i = 0; i < options->n; i++)
	{
		if (strncmp(options->word[i], "--input", strlen("--input")) == 0)
			return NULL;
	}
	if (fstat(STDIN_FILENO, &file) != 0)
		return NULL;
	if (!S_ISREG(file.st_mode))
	{
		if (S_ISFIFO(file.st_mode))
			note_pipe();
		return NULL;
	}
	bytes = Alloc(INPUT_MOST + 1);
	while (len <= INPUT_MOST &&
		   (n = read(STDIN_FILENO, bytes + len, INPUT_MOST + 1 - len)) != 0)
	{
		if (n < 0 && errno != EINTR)
			Fail(CLI_USAGE, "standard input: %s", strerror(errno));
		len += n < 0 ? 0 : n;
	}
	if (len > INPUT_MOST)
		Fail(CLI_USAGE, "standard input has more than %d bytes: copy the file to"
			 " where the nodes can read it, and name it by --input", INPUT_MOST);
	text = len == 0 ? NULL : Alloc(len / 3 * 4 + 5);
	if (text != NULL)
		(void) EVP_EncodeBlock((unsigned char *) text, bytes, (int) len);
	free(bytes);
	return text;
}

/* Warns if a pipe has something that the command would not get. */
static void
note_pipe(void)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};

	if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLIN) != 0)
		fprintf(stderr, "srun: warning: standard input is a pipe, which the"
				" command does not get; write it to a file, as in"
				" \"srun COMMAND < FILE\"\n");
}

/*
 * Submits a job and waits until it runs. A signal that would end this command
 * cancels the job first.
 */
static char *
start(const Interactive *asked, const char *script, char *const *args)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = note_signal};
	char	   *job = StartedJobSubmit(&asked->submit, script, args);
	bool		told = false;
	JobProgress progress;

	for (int i = 0; i < 3; i++)
		(void) sigaction(signals[i], &action, NULL);
	while ((progress = StartedJobProgress(job, "1 s")) == JOB_WAITS &&
		   ended_by == 0)
	{
		if (!told)
			fprintf(stderr, "%s: job %s queued and waiting for resources\n",
					cli_program, job);
		told = true;
		usleep(LOOK_US);
	}
	if (ended_by != 0)
	{
		cancel(job);
		fprintf(stderr, "%s: job %s is cancelled\n", cli_program, job);
		exit(128 + ended_by);
	}
	if (progress == JOB_RUNS && told)
		fprintf(stderr, "%s: job %s has been allocated resources\n",
				cli_program, job);
	if (progress == JOB_RUNS && !asked->quiet)
		fprintf(stderr, "salloc: Granted job allocation %s\n", job);
	if (progress == JOB_IS_OVER && asked->terminal)
		Fail(CLI_REFUSED, "job %s ended before it could be reached:"
			 " \"gpucredit logs %s\" shows why", job, job);
	return job;
}

static void
note_signal(int number)
{
	ended_by = number;
}

/*
 * Waits until the job has ended by itself, as it does when the terminal's
 * command has; otherwise cancels it.
 */
static void
wait_until_over(const char *job)
{
	for (int waited = 0; waited < LEAVE_US && ended_by == 0; waited += LOOK_US)
	{
		if (StartedJobProgress(job, "0") == JOB_IS_OVER)
			return;
		usleep(LOOK_US);
	}
	cancel(job);
}

static void
cancel(const char *job)
{
	const char *values[3] = {CliOrg(), job,
	Format("gpucredit-cancel-%s", job)};
	PGresult   *result = CliRepeat("SELECT gpucredit.cancel($1, $2::bigint,"
								   " $3)", 3, values, PATIENCE);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliPrintRefusal(job, result);
	PQclear(result);
}

/* Returns 32 random hexadecimal digits. */
static char *
random_name(void)
{
	unsigned char bytes[16];
	char		text[33];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		Fail(CLI_REFUSED, "no random numbers: %s", strerror(errno));
	for (int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return Dup(text);
}
