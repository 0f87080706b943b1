/*-------------------------------------------------------------------------
 *
 * sbatch.c
 *		Parses the options of sbatch, from the command line and from a script.
 *
 * A line "#SBATCH ..." of a script, before its first command, has the same
 * options. Options of the command line override those of the script, and a
 * repeated option overrides its earlier value. An unknown option ends the
 * command, because a job must not run without what its script requests.
 * Options that do not change how the job runs are accepted with a warning.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "submission.h"

#define SCRIPT_MOST	(1024 * 1024)
#define WORDS_MOST	256
#define SBATCH_USE	"usage: sbatch [OPTION...] [SCRIPT [ARGUMENT...]]\n" \
	"       sbatch [OPTION...] --wrap=COMMAND"
#define SUBMIT_USE	"usage: gpucredit submit [OPTION...] SCRIPT [ARGUMENT...]\n" \
	"Submits a script as a job. #SBATCH lines before its first command are" \
	" options\nas well. man gpucredit says what they mean."

static const struct option options[] = {
	{"account", required_argument, NULL, 'A'},
	{"acctg-freq", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"array", required_argument, NULL, 'a'},
	{"begin", required_argument, NULL, 'b'},
	{"chdir", required_argument, NULL, 'D'},
	{"comment", required_argument, NULL, OPT_COMMENT},
	{"constraint", required_argument, NULL, 'C'},
	{"contiguous", no_argument, NULL, OPT_WITHOUT_EFFECT},
	{"cpu-freq", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"cpus-per-gpu", required_argument, NULL, OPT_CPUS_PER_GPU},
	{"cpus-per-task", required_argument, NULL, 'c'},
	{"deadline", required_argument, NULL, OPT_DEADLINE},
	{"delay-boot", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"dependency", required_argument, NULL, 'd'},
	{"distribution", required_argument, NULL, 'm'},
	{"error", required_argument, NULL, 'e'},
	{"exclude", required_argument, NULL, 'x'},
	{"exclusive", optional_argument, NULL, OPT_EXCLUSIVE},
	{"export", required_argument, NULL, OPT_EXPORT},
	{"get-user-env", optional_argument, NULL, OPT_WITHOUT_EFFECT},
	{"gpu-bind", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"gpu-freq", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"gpus", required_argument, NULL, 'G'},
	{"gpus-per-node", required_argument, NULL, OPT_GPUS_PER_NODE},
	{"gpus-per-task", required_argument, NULL, OPT_GPUS_PER_TASK},
	{"gres", required_argument, NULL, OPT_GRES},
	{"gres-flags", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"help", no_argument, NULL, 'h'},
	{"hint", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"hold", no_argument, NULL, 'H'},
	{"ignore-pbs", no_argument, NULL, OPT_WITHOUT_EFFECT},
	{"job-name", required_argument, NULL, 'J'},
	{"kill-on-invalid-dep", required_argument, NULL, OPT_KILL},
	{"mail-type", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"mail-user", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"mem", required_argument, NULL, OPT_MEM},
	{"mem-bind", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"mem-per-cpu", required_argument, NULL, OPT_MEM_PER_CPU},
	{"mem-per-gpu", required_argument, NULL, OPT_MEM_PER_GPU},
	{"nice", optional_argument, NULL, OPT_NICE},
	{"no-kill", optional_argument, NULL, 'k'},
	{"no-requeue", no_argument, NULL, OPT_NO_REQUEUE},
	{"nodefile", required_argument, NULL, 'F'},
	{"nodelist", required_argument, NULL, 'w'},
	{"nodes", required_argument, NULL, 'N'},
	{"ntasks", required_argument, NULL, 'n'},
	{"ntasks-per-core", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"ntasks-per-gpu", required_argument, NULL, OPT_NTASKS_PER_GPU},
	{"ntasks-per-node", required_argument, NULL, OPT_NTASKS_PER_NODE},
	{"ntasks-per-socket", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"open-mode", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"output", required_argument, NULL, 'o'},
	{"oversubscribe", no_argument, NULL, 's'},
	{"parsable", no_argument, NULL, OPT_PARSABLE},
	{"partition", required_argument, NULL, 'p'},
	{"power", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"profile", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"propagate", optional_argument, NULL, OPT_WITHOUT_EFFECT},
	{"qos", required_argument, NULL, 'q'},
	{"quiet", no_argument, NULL, 'Q'},
	{"requeue", no_argument, NULL, OPT_REQUEUE},
	{"signal", required_argument, NULL, OPT_SIGNAL},
	{"spread-job", no_argument, NULL, OPT_WITHOUT_EFFECT},
	{"switches", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"tasks-per-node", required_argument, NULL, OPT_NTASKS_PER_NODE},
	{"test-only", no_argument, NULL, OPT_DRY_RUN},
	{"time", required_argument, NULL, 't'},
	{"time-min", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"use-min-nodes", no_argument, NULL, OPT_WITHOUT_EFFECT},
	{"verbose", no_argument, NULL, 'v'},
	{"wait", no_argument, NULL, 'W'},
	{"wait-all-nodes", required_argument, NULL, OPT_WITHOUT_EFFECT},
	{"wckey", required_argument, NULL, OPT_WCKEY},
	{"wrap", required_argument, NULL, OPT_WRAP},
	/* The following options are gpucredit's own. */
	{"checkpoint-every", required_argument, NULL, OPT_CHECKPOINT_EVERY},
	{"checkpoint-signal", required_argument, NULL, OPT_CHECKPOINT_SIGNAL},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"hold-window", required_argument, NULL, OPT_HOLD_WINDOW},
	{"image", required_argument, NULL, OPT_IMAGE},
	{"json", no_argument, NULL, OPT_JSON},
	{"key", required_argument, NULL, OPT_KEY},
	{"label", required_argument, NULL, OPT_LABEL},
	{"launch", required_argument, NULL, OPT_LAUNCH},
	{"max-retries", required_argument, NULL, OPT_MAX_RETRIES},
	{"request", required_argument, NULL, OPT_REQUEST},
	{"topology", required_argument, NULL, OPT_TOPOLOGY},
	{NULL, 0, NULL, 0}
};

static const char letters[] = "+:A:a:b:C:D:c:d:e:F:G:hHJ:k::m:N:n:o:p:Qq:st:vWw:x:";

/* Letters of options that are accepted without effect. */
static const char idle_letters[] = "kmQsv";

static const char *name_of(int letter);
static void parse_text_option(StoredSubmission *s, int option, const char *value,
							  const char *where);
static void parse_size_option(StoredSubmission *s, int option, const char *value,
							  const char *where);
static void set_nodes(StoredSubmission *s, int option, const char *value,
					  const char *where);
static void set_text(char **text, const char *value);
static const char *gres_count(const char *value, const char *where);
static int64_t node_count(const char *text, const char *where);
static void set_memory(StoredSubmission *s, int option, int64_t amount,
					   const char *where);
static int64_t whole(const char *text, const char *option,
					 const char *where);
static int64_t typed_count(StoredSubmission *s, const char *value,
						   const char *where);
static int64_t mebibytes(const char *text, const char *where);
static int64_t time_limit(const char *text, const char *where);
static int	split_words(char *line, char **words, const char *where);

void
SubmissionInit(StoredSubmission *submission)
{
	memset(submission, 0, sizeof(StoredSubmission));
	submission->gpus = submission->gpus_per_node = -1;
	submission->retries = -1;
}

/*
 * Parses options. Returns the index of the first word after them.
 */
int
SubmissionOptions(StoredSubmission *submission, int argc, char **argv,
				  const char *where)
{
	int			option;
	int			index = 0;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, options,
								 &index)) != -1)
	{
		if (option == 'h')
		{
			CliHelp(strcmp(cli_program, "sbatch") == 0 ? SBATCH_USE : SUBMIT_USE,
					options, letters);
			exit(CLI_DONE);
		}
		if (option == ':')
			Fail(CLI_USAGE, "%s: option \"%s\" takes a value", where,
				 argv[optind - 1]);

		/*
		 * If the letter is a known one, the option was given a value that it
		 * does not take.
		 */
		if (option == '?')
			OptionRefused(argv[optind - 1], optopt < 256 && optopt > 0 &&
						  strchr(letters, optopt) != NULL ? 0 : optopt,
						  where);
		if (option == OPT_WITHOUT_EFFECT ||
			(option < 256 && strchr(idle_letters, option) != NULL))
		{
			if (submission->warns && option != 'Q' && option != 'v')
				fprintf(stderr, "gpucredit: %s: option \"--%s\" has no effect\n",
						where, option == OPT_WITHOUT_EFFECT ?
						options[index].name : name_of(option));
			continue;
		}
		if (!SubmissionStartOption(submission, option, optarg, where))
			parse_text_option(submission, option, optarg, where);
	}
	return optind;
}

/*
 * Returns the table of options, and the argument of getopt_long() that goes
 * with it, for commands that have further options of their own.
 */
const struct option *
SubmissionOptionTable(const char **short_options)
{
	*short_options = letters;
	return options;
}

static const char *
name_of(int letter)
{
	const struct option *option = options;

	while (option->val != letter)
		option++;
	return option->name;
}

/*
 * Reads a whole script, and parses the options in it.
 */
void
SubmissionScript(StoredSubmission *submission, const char *path)
{
	FILE	   *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	char	   *text = Alloc(SCRIPT_MOST + 2);
	size_t		len;
	int			number = 0;
	char	   *line;
	char	   *next;
	char	   *copy;

	if (file == NULL)
		Fail(CLI_USAGE, "could not read %s: %s", path, strerror(errno));
	len = fread(text, 1, SCRIPT_MOST + 1, file);
	if (file != stdin)
		fclose(file);
	if (len > SCRIPT_MOST)
		Fail(CLI_USAGE, "%s is longer than %d bytes", path, SCRIPT_MOST);
	if (strlen(text) != len)
		Fail(CLI_USAGE, "%s is no text", path);
	InterpreterCheck(path, text);
	submission->script = text;
	copy = Format("%s", text);
	for (line = copy; line != NULL && *line != '\0'; line = next)
	{
		char	   *words[WORDS_MOST];
		char	   *where = Format("%s:%d", path, ++number);
		int			n;

		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (strncmp(line, "#SBATCH", 7) == 0 &&
			isspace((unsigned char) line[7]))
		{
			n = split_words(line + 7, words, where);
			if (SubmissionOptions(submission, n, words, where) != n)
				Fail(CLI_USAGE, strcmp(words[optind], "hetjob") == 0 ?
					 "%s: \"%s\" is not supported: submit each part as a job"
					 " of its own" : "%s: \"%s\" is no option; remove it",
					 where, words[optind]);
		}
		else if (*line != '#' && line[strspn(line, " \t\r")] != '\0')
			next = NULL;		/* this line is the script's first command */
		free(where);
	}
	free(copy);
}

/*
 * Splits a line as a shell does: quotes are respected, and "#" begins a
 * comment. The first word takes the position of the program's name.
 */
static int
split_words(char *line, char **words, const char *where)
{
	char	   *at = line;
	int			n = 0;

	words[n++] = "sbatch";
	for (;;)
	{
		char	   *to;
		char		quote = '\0';

		at += strspn(at, " \t\r");
		if (*at == '\0' || *at == '#')
			break;
		if (n == WORDS_MOST - 1)
			Fail(CLI_USAGE, "%s: too many words", where);
		words[n++] = to = at;
		for (; *at != '\0' && (quote != '\0' || strchr(" \t\r", *at) == NULL);
			 at++)
		{
			if (quote == '\0' && (*at == '"' || *at == '\''))
				quote = *at;
			else if (*at == quote)
				quote = '\0';
			else
				*to++ = *at;
		}
		if (quote != '\0')
			Fail(CLI_USAGE, "%s: a quote is not closed", where);
		if (*at != '\0')
			at++;
		*to = '\0';
	}
	words[n] = NULL;
	return n;
}

/*
 * Handles options with a text. Other options are passed to
 * parse_size_option().
 */
static void
parse_text_option(StoredSubmission *s, int option, const char *value,
				  const char *where)
{
	char	  **text = NULL;

	switch (option)
	{
		case 'A':
			text = &s->account;
			break;
		case 'C':
			free(s->constraint_place);
			s->constraint_place = Format("%s", where);
			text = &s->constraint;
			break;
		case 'D':
			text = &s->workdir;
			break;
		case 'J':
			text = &s->name;
			break;
		case 'e':
			text = &s->error;
			break;
		case 'o':
			text = &s->output;
			break;
		case 'p':
			text = &s->pool;
			break;
		case 'q':
			text = &s->tier;
			break;
		case 'F':
		case 'w':
		case 'x':
			set_nodes(s, option, value, where);
			return;
		case OPT_EXPORT:
			text = &s->exported;
			break;
		case OPT_WRAP:
			text = &s->wrap;
			break;
		case OPT_REQUEST:
			text = &s->request;
			break;
		case OPT_TOPOLOGY:
			text = &s->topology;
			break;
		case OPT_HOLD_WINDOW:
			text = &s->hold_window;
			break;
		case OPT_CHECKPOINT_SIGNAL:
			text = &s->checkpoint_signal;
			break;
		case OPT_CHECKPOINT_EVERY:
			text = &s->checkpoint_every;
			break;
		case OPT_IMAGE:
			text = &s->image;
			break;
		case OPT_KEY:
			text = &s->key;
			break;
		case OPT_LAUNCH:
			if (strcmp(value, "per_node") != 0 &&
				strcmp(value, "per_gpu") != 0 && strcmp(value, "once") != 0)
				Fail(CLI_USAGE, "%s: --launch is once, per_node or per_gpu",
					 where);
			text = &s->launch;
			break;
		case OPT_PARSABLE:
			s->parsable = true;
			return;
		case OPT_DRY_RUN:
			s->dry_run = true;
			return;
		case OPT_JSON:
			s->json = true;
			return;
		default:
			parse_size_option(s, option, value, where);
			return;
	}
	set_text(text, value);
}

/*
 * Handles options with a number.
 */
static void
parse_size_option(StoredSubmission *s, int option, const char *value,
				  const char *where)
{
	switch (option)
	{
		case 'a':
			ArrayParse(&s->array, value, where);
			break;
		case 'G':
			s->gpus = typed_count(s, value, where);
			break;
		case OPT_GRES:
			s->gres = true;
			s->gpus_per_node = typed_count(s, gres_count(value, where), where);
			break;
		case OPT_GPUS_PER_NODE:
			s->per_node = true;
			s->gpus_per_node = typed_count(s, value, where);
			break;
		case OPT_GPUS_PER_TASK:
			s->gpus_per_task = typed_count(s, value, where);
			break;
		case 'N':
			s->nodes = node_count(value, where);
			break;
		case 'n':
			s->tasks = whole(value, "--ntasks", where);
			break;
		case OPT_NTASKS_PER_NODE:
			s->tasks_per_node = whole(value, "--ntasks-per-node", where);
			break;
		case 'c':
			s->cpus_per_task = whole(value, "--cpus-per-task", where);
			break;
		case OPT_CPUS_PER_GPU:
			s->cpus_per_gpu = whole(value, "--cpus-per-gpu", where);
			break;
		case OPT_NTASKS_PER_GPU:
			s->tasks_per_gpu = whole(value, "--ntasks-per-gpu", where);
			break;
		case OPT_MEM:
		case OPT_MEM_PER_GPU:
		case OPT_MEM_PER_CPU:
			set_memory(s, option, mebibytes(value, where), where);
			break;
		case 't':
			s->seconds = time_limit(value, where);
			break;
		case OPT_NO_REQUEUE:
			value = "0";
			/* FALLTHROUGH */
		case OPT_MAX_RETRIES:
			s->retries = CliNumber(value, 0, 1000, "--max-retries");
			break;
		case OPT_REQUEUE:
			s->retries = 3;
			break;
	}
}

/*
 * Parses a list of nodes that the job has, or must not use.
 */
static void
set_nodes(StoredSubmission *s, int option, const char *value,
		  const char *where)
{
	if (option == 'x')
	{
		json_decref(s->excluded);
		s->excluded = HostlistExpand(value, false, "--exclude", where);
		return;
	}
	json_decref(s->nodelist);
	free(s->nodelist_place);
	s->nodelist = HostlistExpand(value, option == 'F', option == 'F' ?
								 "--nodefile" : "--nodelist", where);
	s->nodelist_place = Format("%s", where);
}

static void
set_text(char **text, const char *value)
{
	free(*text);
	*text = Format("%s", value);
}

/*
 * Returns what follows "gpu:" in a text such as "gpu:a100:4".
 */
static const char *
gres_count(const char *value, const char *where)
{
	if (strcmp(value, "none") == 0)
		return "0";
	if (strchr(value, ',') != NULL)
		Fail(CLI_USAGE, "%s: --gres=%s names several resources; keep one of"
			 " them, as gpu:a100:4", where, value);
	if (strncmp(value, "gpu", 3) != 0 ||
		(value[3] != ':' && value[3] != '\0'))
		Fail(CLI_USAGE, "%s: --gres knows \"gpu\" alone, not \"%s\"; remove"
			 " it", where, value);
	return value[3] == '\0' ? "1" : value + 4;
}

/*
 * Parses a number of nodes: "2" or "2-2".
 */
static int64_t
node_count(const char *text, const char *where)
{
	const char *dash = strchr(text, '-');
	int64_t		most;

	if (dash == NULL || dash == text)
		return whole(text, "--nodes", where);
	most = whole(dash + 1, "--nodes", where);
	if (whole(Format("%.*s", (int) (dash - text), text), "--nodes",
			  where) != most)
		Fail(CLI_USAGE, "%s: --nodes=%s is a range, which is not supported;"
			 " give one number, or --gpus alone, which may be on any number"
			 " of nodes", where, text);
	return most;
}

/*
 * Sets the memory of one of three options. A different memory option on the
 * command line overrides that of the script, but two of them in the same place
 * are a mistake.
 */
static void
set_memory(StoredSubmission *s, int option, int64_t amount,
		   const char *where)
{
	if (s->memory_option != 0 && s->memory_option != option &&
		s->memory_of_command == s->of_command)
		Fail(CLI_USAGE, "%s: --mem, --mem-per-cpu and --mem-per-gpu exclude"
			 " each other; keep one of them", where);
	s->memory_option = option;
	s->memory_of_command = s->of_command;
	s->memory_mib = option == OPT_MEM ? amount : 0;
	s->memory_per_cpu_mib = option == OPT_MEM_PER_CPU ? amount : 0;
	s->memory_per_gpu_mib = option == OPT_MEM_PER_GPU ? amount : 0;
}

static int64_t
whole(const char *text, const char *option, const char *where)
{
	char	   *what = Format("%s: %s", where, option);
	int64_t		number = CliNumber(text, 1, 1000000, what);

	free(what);
	return number;
}

/*
 * Parses "4", "a100", or "a100:4".
 */
static int64_t
typed_count(StoredSubmission *s, const char *value, const char *where)
{
	const char *colon = strchr(value, ':');

	if (colon == NULL && !isdigit((unsigned char) *value))
	{
		set_text(&s->gpu_type, value);
		return 1;
	}
	if (colon != NULL)
	{
		char	   *type = Format("%.*s", (int) (colon - value), value);

		set_text(&s->gpu_type, type);
		free(type);
		value = colon + 1;
	}
	if (strcmp(value, "0") == 0)
		return 0;
	return whole(value, "a number of GPUs", where);
}

/*
 * Parses an amount of memory to MiB. It may be followed by K, M, G or T, and
 * then by B; the default is MiB.
 */
static int64_t
mebibytes(const char *text, const char *where)
{
	char	   *end;
	long long	number;
	double		factor;

	errno = 0;
	number = strtoll(text, &end, 10);
	factor = *end == '\0' || *end == 'M' || *end == 'm' ? 1 :
		*end == 'G' || *end == 'g' ? 1024 :
		*end == 'T' || *end == 't' ? 1024 * 1024 :
		*end == 'K' || *end == 'k' ? 1 / 1024.0 : -1;
	if (*end != '\0' && (end[1] == 'B' || end[1] == 'b'))
		end++;
	if (end == text || errno != 0 || number < 0 || factor < 0 ||
		(*end != '\0' && end[1] != '\0') || number * factor > 1e12)
		Fail(CLI_USAGE, "%s: \"%s\" is no amount of memory, as 64G", where,
			 text);
	return (int64_t) (number * factor + 0.999);
}

/*
 * Parses a time limit: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS.
 * Returns seconds. For 0, -1, UNLIMITED and INFINITE it returns 0, which means
 * as long as the tier allows.
 */
static int64_t
time_limit(const char *text, const char *where)
{
	const char *dash = strchr(text, '-');
	const char *rest = dash == NULL ? text : dash + 1;
	long long	days = 0;
	long long	part[3] = {0, 0, 0};
	int			n = 0;
	int64_t		seconds;
	bool		good = true;

	if (strcmp(text, "0") == 0 || strcmp(text, "-1") == 0 ||
		strcasecmp(text, "UNLIMITED") == 0 || strcasecmp(text, "INFINITE") == 0)
		return 0;
	if (dash != NULL)
	{
		char	   *end;

		good = isdigit((unsigned char) *text);
		days = strtoll(text, &end, 10);
		good = good && end == dash && days <= 36500;
	}
	while (good && n < 3)
	{
		char	   *end;

		good = isdigit((unsigned char) *rest);
		part[n++] = strtoll(rest, &end, 10);
		good = good && part[n - 1] <= 10000000;
		rest = end;
		if (*rest != ':')
			break;
		rest++;
	}
	if (dash != NULL)
		seconds = days * 86400 + part[0] * 3600 + part[1] * 60 + part[2];
	else
		seconds = n == 1 ? part[0] * 60 : n == 2 ? part[0] * 60 + part[1] :
			part[0] * 3600 + part[1] * 60 + part[2];
	if (!good || *rest != '\0' || seconds <= 0)
		Fail(CLI_USAGE, "%s: \"%s\" is no time limit, as 1-12:00:00", where,
			 text);
	return seconds;
}
