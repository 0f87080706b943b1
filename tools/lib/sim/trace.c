/*
 * trace.c
 *	  Reads the jobs of a trace.
 *
 * Two forms are known by their content.  A list with a heading names its
 * columns, separated by commas, in any order:
 *
 *	job			its name
 *	tenant		also user, group or account; absent: all are one tenant's
 *	submit		seconds; also submit_s
 *	gpus		also processors
 *	run			seconds that it works; or a column TYPE_s for each GPU type
 *	wall		its limit in seconds; absent: as long as the run
 *	tier		absent: standard_training
 *
 * Standard Workload Format has no heading: comments begin with ";", and each
 * line has 18 numbers, -1 where nothing is known.  Jobs that were cancelled
 * before they ran are skipped.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MOST_COLUMNS	64
#define LINE_SIZE		4096

/* The places of the columns of a list; -1: it has none. */
typedef struct Columns
{
	int			job;
	int			tenant;
	int			submit;
	int			gpus;
	int			run;
	int			wall;
	int			tier;
	int			of_type[SIM_TYPES];
} Columns;

static const char *const tiers[SIM_TIERS] = {
	"production_inference", "premium_training", "standard_training",
	"batch_inference", "interactive"
};

/*
 * Split a line at its commas or blanks, in place.  Returns the number of
 * fields.
 */
static int
split(char *line, const char *separators, char **fields)
{
	int			n = 0;
	char	   *rest = line;
	char	   *field;

	line[strcspn(line, "\r\n")] = '\0';
	if (separators[0] == ',')
	{
		while (n < MOST_COLUMNS && (field = strsep(&rest, ",")) != NULL)
			fields[n++] = field;
		return n;
	}
	while (n < MOST_COLUMNS && (field = strsep(&rest, separators)) != NULL)
	{
		if (*field != '\0')
			fields[n++] = field;
	}
	return n;
}

/*
 * The number of a tenant, which is added if it is new.
 */
static int32_t
tenant_number(SimTrace *trace, const char *name)
{
	static int32_t capacity = 0;
	int32_t		i;

	for (i = 0; i < trace->n_tenants; i++)
	{
		if (strcmp(trace->tenants[i].name, name) == 0)
			return i;
	}
	if (trace->n_tenants == 0)
		capacity = 0;
	trace->tenants = SimGrow(trace->tenants, trace->n_tenants, &capacity,
							 sizeof(SimTenant));
	memset(&trace->tenants[trace->n_tenants], 0, sizeof(SimTenant));
	trace->tenants[trace->n_tenants].name = strdup(name);
	return trace->n_tenants++;
}

static int32_t
tier_number(const char *name, const char *file)
{
	int32_t		i;

	for (i = 0; i < SIM_TIERS; i++)
	{
		if (strcmp(tiers[i], name) == 0)
			return i;
	}
	SimDie("%s: there is no tier \"%s\"", file, name);
}

/*
 * Add a job, if it is one that ran.
 */
static void
add_job(SimTrace *trace, int32_t *capacity, const SimJob *job)
{
	bool		ran = false;
	int32_t		t;

	for (t = 0; t < SIM_TYPES; t++)
		ran |= job->run[t] > 0;
	if (!ran || job->gpus <= 0 || job->submitted < 0)
	{
		trace->n_skipped++;
		return;
	}
	trace->jobs = SimGrow(trace->jobs, trace->n_jobs, capacity,
						  sizeof(SimJob));
	trace->jobs[trace->n_jobs++] = *job;
}

static int64_t
seconds(const char *field)
{
	return (int64_t) (atof(field) * (double) SECOND);
}

/*
 * Find the columns by the heading.
 */
static Columns
heading(SimTrace *trace, char **fields, int n)
{
	Columns		at = {-1, -1, -1, -1, -1, -1, -1, {0}};
	int			i;

	for (i = 0; i < n; i++)
	{
		const char *name = fields[i];
		size_t		size = strlen(name);

		if (strcmp(name, "job") == 0)
			at.job = i;
		else if (strcmp(name, "tenant") == 0 || strcmp(name, "user") == 0 ||
				 strcmp(name, "group") == 0 || strcmp(name, "account") == 0)
			at.tenant = i;
		else if (strcmp(name, "submit") == 0 || strcmp(name, "submit_s") == 0)
			at.submit = i;
		else if (strcmp(name, "gpus") == 0 || strcmp(name, "processors") == 0)
			at.gpus = i;
		else if (strcmp(name, "run") == 0 || strcmp(name, "run_s") == 0)
			at.run = i;
		else if (strcmp(name, "wall") == 0 || strcmp(name, "wall_s") == 0)
			at.wall = i;
		else if (strcmp(name, "tier") == 0)
			at.tier = i;
		else if (size > 2 && strcmp(name + size - 2, "_s") == 0 &&
				 trace->n_types < SIM_TYPES)
		{
			char	   *type = strndup(name, size - 2);
			char	   *c;

			for (c = type; *c != '\0'; c++)
				*c = (char) toupper((unsigned char) *c);
			at.of_type[trace->n_types] = i;
			trace->types[trace->n_types++] = type;
		}
	}
	if (at.submit < 0 || at.gpus < 0 || (at.run < 0 && trace->n_types == 0))
		SimDie("%s: its heading needs the columns submit, gpus, and run or"
			   " TYPE_s", trace->file);
	return at;
}

/*
 * A job of a list.
 */
static SimJob
listed_job(SimTrace *trace, const Columns *at, char **fields)
{
	SimJob		job = {.submitted = seconds(fields[at->submit]),
		.gpus = atoi(fields[at->gpus]), .tier = 2};
	int64_t		longest = 0;
	int32_t		t;

	job.name = strdup(at->job >= 0 ? fields[at->job] : "");
	job.tenant = tenant_number(trace, at->tenant >= 0 ? fields[at->tenant] :
							   "everybody");
	if (at->tier >= 0 && fields[at->tier][0] != '\0')
		job.tier = tier_number(fields[at->tier], trace->file);
	for (t = 0; t < SIM_TYPES; t++)
	{
		if (at->run >= 0)
			job.run[t] = seconds(fields[at->run]);
		else if (t < trace->n_types)
			job.run[t] = seconds(fields[at->of_type[t]]);
		longest = job.run[t] > longest ? job.run[t] : longest;
	}
	job.wall = at->wall >= 0 ? seconds(fields[at->wall]) : longest;
	return job;
}

/*
 * A job in Standard Workload Format: the processors that it asked for, else
 * those that it got; the time that it asked for, else its run.
 */
static SimJob
swf_job(SimTrace *trace, char **fields)
{
	SimJob		job = {.submitted = seconds(fields[1]),
		.gpus = atoi(fields[7]) > 0 ? atoi(fields[7]) : atoi(fields[4]),
		.tier = 2};
	int32_t		t;

	job.name = strdup(fields[0]);
	job.tenant = tenant_number(trace, fields[11]);
	for (t = 0; t < SIM_TYPES; t++)
		job.run[t] = seconds(fields[3]);
	job.wall = atof(fields[8]) > 0 ? seconds(fields[8]) : job.run[0];
	return job;
}

/*----------
 * The order of the jobs of a trace:
 *
 * 1. time of submission;
 * 2. place in the file, which "type" still has here.
 *----------
 */
static int
compare_submitted(const void *a, const void *b)
{
	const SimJob *x = a;
	const SimJob *y = b;

	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	return x->type - y->type;	/* the place in the file */
}

/*
 * Order the jobs by submission, start the clock at the first, and let no
 * limit be below the run: a job that the limit ended ran up to it.
 */
static void
tidy(SimTrace *trace)
{
	int32_t		i;
	int32_t		t;
	int64_t		first;

	if (trace->n_jobs == 0)
		SimDie("%s: it has no jobs", trace->file);
	for (i = 0; i < trace->n_jobs; i++)
		trace->jobs[i].type = i;
	qsort(trace->jobs, (size_t) trace->n_jobs, sizeof(SimJob),
		  compare_submitted);
	first = trace->jobs[0].submitted;
	for (i = 0; i < trace->n_jobs; i++)
	{
		SimJob	   *job = &trace->jobs[i];

		job->submitted -= first;
		for (t = 0; t < SIM_TYPES; t++)
			job->wall = job->run[t] > job->wall ? job->run[t] : job->wall;
		job->wall = job->wall < SECOND ? SECOND : job->wall;
	}
}

SimTrace *
SimTraceRead(const char *file)
{
	SimTrace   *trace = SimAlloc(1, sizeof(SimTrace));
	FILE	   *input = fopen(file, "r");
	char		line[LINE_SIZE];
	char	   *fields[MOST_COLUMNS];
	Columns		at = {0};
	bool		is_list = false;
	bool		first = true;
	int32_t		capacity = 0;
	int			n_columns = 0;
	int			n;

	trace->file = strdup(file);
	if (input == NULL)
		SimDie("%s: cannot be read", file);
	while (fgets(line, sizeof(line), input) != NULL)
	{
		SimJob		job;

		if (line[0] == ';' || line[0] == '\n' || line[0] == '\r')
			continue;
		if (first)
			is_list = strchr(line, ',') != NULL;
		n = split(line, is_list ? "," : " \t", fields);
		if (first && is_list)
		{
			at = heading(trace, fields, n);
			n_columns = n;
		}
		else if (is_list ? n < n_columns : n < 18)
			trace->n_skipped++;
		else
		{
			job = is_list ? listed_job(trace, &at, fields) :
				swf_job(trace, fields);
			add_job(trace, &capacity, &job);
		}
		first = false;
	}
	fclose(input);
	tidy(trace);
	return trace;
}

/*
 * Keep the first n jobs.
 */
void
SimTraceLimit(SimTrace *trace, int32_t n)
{
	if (n < trace->n_jobs)
		trace->n_jobs = n;
}

/*
 * Give each job the limit that a user might ask for: its longest run times a
 * number between two bounds, from a seed.
 */
void
SimTraceStretchWalls(SimTrace *trace, double least, double most,
					 uint64_t seed)
{
	int32_t		i;
	int32_t		t;

	for (i = 0; i < trace->n_jobs; i++)
	{
		SimJob	   *job = &trace->jobs[i];
		int64_t		longest = 0;

		/* xorshift64* */
		seed ^= seed >> 12;
		seed ^= seed << 25;
		seed ^= seed >> 27;
		for (t = 0; t < SIM_TYPES; t++)
			longest = job->run[t] > longest ? job->run[t] : longest;
		job->wall = (int64_t) ((double) longest *
							   (least + (most - least) *
								((double) ((seed * UINT64_C(0x2545F4914F6CDD1D)) >> 11) / 9007199254740992.0)));
		job->wall = job->wall < SECOND ? SECOND : job->wall;
	}
}

/*
 * Let jobs arrive in a fraction of their time, to raise the load.
 */
void
SimTraceCompress(SimTrace *trace, double factor)
{
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
		trace->jobs[i].submitted = (int64_t)
			((double) trace->jobs[i].submitted * factor);
}

/*
 * Forget a replay.
 */
void
SimTraceReset(SimTrace *trace)
{
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		SimJob	   *job = &trace->jobs[i];

		free(job->parts);
		free(job->reserved);
		job->parts = job->reserved = NULL;
		job->n_reserved = 0;
		job->reserved_at = job->guaranteed = 0;
		job->named = false;
		job->n_parts = job->attempt = job->evictions = job->reclaims = 0;
		job->first_start = job->started = -1;
		job->promised = job->expected = DECIDE_NEVER;
		job->done = job->waited = job->lost = job->ends = 0;
		job->for_job = -1;
		job->leaving = job->ended = false;
	}
	for (i = 0; i < trace->n_tenants; i++)
	{
		char	   *name = trace->tenants[i].name;

		memset(&trace->tenants[i], 0, sizeof(SimTenant));
		trace->tenants[i].name = name;
	}
}
