/*
 * main.c
 *	  The simulator's options, and the table that it prints.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

#define MOST_POLICIES	16

static const char *const usage =
"tools/sim replays a trace of jobs and prints what people would have felt.\n"
"\n"
"  tools/sim TRACE [OPTION...]\n"
"\n"
"TRACE is a list with a heading (job, tenant, submit, gpus, run or TYPE_s,\n"
"wall, tier), or a file in Standard Workload Format. Times are seconds.\n"
"made:DAYS:LOAD[:SEED] is a trace that is made up: eight tenants ask for LOAD\n"
"times what the cluster has, over so many days.\n"
"\n"
"The cluster:\n"
"  --nodes N             nodes (32)\n"
"  --gpus G              GPUs of each node (8)\n"
"  --cluster TYPE:NxG,.. nodes of several types, for traces with TYPE_s columns\n"
"\n"
"The jobs:\n"
"  --first N             only the first N jobs\n"
"  --compress F          arrivals in F of their time\n"
"  --walls A-B           wall limits are the run times a number from A to B\n"
"  --seed S              of those numbers (1)\n"
"\n"
"The policies, each of which is a line of the table:\n"
"  --policy NAME         fifo, easy, sjf, installed, tuned, backfill; may be\n"
"                        given several times (fifo, easy, sjf, installed)\n"
"  Settings of every policy that is not fifo, easy or sjf:\n"
"  --order fair|shortest   --packing pack|spread|fgd   --reclaim   --no-reclaim\n"
"  --no-learning           nothing is learnt of how long jobs run\n"
"  --one-account           no fair share\n"
"  --depth N               reservations (gpucredit.backfill_depth)\n"
"  --max-wait HOURS        of all tiers; 0: no job ages\n"
"  --min-run MINUTES       before which no job is evicted (10)\n"
"  --restart-cost MINUTES  what an eviction for an entitlement counts as costing\n"
"                        (0: evictions are at once; gpucredit.restart_cost)\n"
"  --halflife HOURS        gpucredit.usage_halflife (168)\n"
"  --save-every MINUTES    between a job's checkpoints (60); 0: it never saves\n"
"\n"
"The result:\n"
"  --plot FILE           draws GPUs in use and GPUs asked for, as SVG\n"
"  --starts FILE         writes each job's first start in seconds, by the last\n"
"                        policy\n"
"  --verify              checks each decision with independent code\n"
"  --every-cycle         decides also where nothing could start, as a server\n"
"                        does, to make its reservations anew (slower)\n"
"  --advise HOURS        compares what capacity_advice says at the last submission\n"
"                        with what the cluster needs for nine in ten devices in\n"
"                        use, and for jobs with 95 % of the device time to wait\n"
"                        no longer than HOURS\n"
"                        (one policy, one type of GPU)\n"
"  --values              prints one line of name=value for each policy\n";

/* What the command line asks for. */
typedef struct Options
{
	SimNodes	nodes[SIM_TYPES];
	int			n_nodes;
	int			nodes_each;
	int			gpus_each;
	int			first;
	double		compress;
	double		wall_least;
	double		wall_most;
	uint64_t	seed;
	SimPolicy	policies[MOST_POLICIES];
	int			n_policies;
	const char *plot;
	const char *starts;
	bool		verify;
	bool		every_cycle;
	bool		values;
	double		advise;			/* negative: no advice is asked for */
} Options;

void
SimDie(const char *form,...)
{
	va_list		args;

	va_start(args, form);
	fprintf(stderr, "sim: ");
	vfprintf(stderr, form, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(2);
}

/*
 * Zeroed memory.
 */
void *
SimAlloc(size_t n, size_t size)
{
	void	   *memory = calloc(n > 0 ? n : 1, size);

	if (memory == NULL)
		SimDie("out of memory");
	return memory;
}

/*
 * Room for one more item of an array.
 */
void *
SimGrow(void *items, int32_t n, int32_t *capacity, size_t size)
{
	if (n < *capacity)
		return items;
	*capacity = *capacity == 0 ? 64 : *capacity * 2;
	items = realloc(items, (size_t) *capacity * size);
	if (items == NULL)
		SimDie("out of memory");
	return items;
}

/*
 * A policy by its name.  "installed" is what a new pool has; "backfill" is
 * first come, first served with the core's reservations; "tuned" is what
 * docs/scheduling.md advises for a pool that is short of devices for weeks.
 */
static SimPolicy
named_policy(const char *name)
{
	SimPolicy	policy = {
		.name = name, .kind = SIM_CORE, .order = DECIDE_ORDER_FAIR,
		.restart_cost = 0, .packing = DECIDE_PACKING_PACK, .learn = true, .depth = 32,
		.max_wait = DAY, .min_run = 600 * SECOND, .halflife = 7 * DAY,
		.fair_horizon = 3600, .save_every = HOUR, .leave_time = 30 * SECOND
	};

	if (strcmp(name, "fifo") == 0)
		policy.kind = SIM_FIFO;
	else if (strcmp(name, "easy") == 0)
		policy.kind = SIM_EASY;
	else if (strcmp(name, "sjf") == 0)
		policy.kind = SIM_SJF;
	else if (strcmp(name, "backfill") == 0)
	{
		policy.one_account = true;
		policy.max_wait = DECIDE_NEVER;
	}
	else if (strcmp(name, "tuned") == 0)
	{
		policy.max_wait = 30 * DAY;
		policy.halflife = DAY;
		policy.depth = 3;
	}
	else if (strcmp(name, "installed") != 0)
		SimDie("there is no policy \"%s\"; see tools/sim --help", name);
	return policy;
}

static double
number(const char *text, const char *option)
{
	char	   *end;
	double		value = strtod(text, &end);

	if (end == text || *end != '\0' || value < 0)
		SimDie("--%s takes a number, not \"%s\"", option, text);
	return value;
}

/*
 * A cluster of several types: V100:63x8,K80:38x8.
 */
static void
read_cluster(Options *options, char *text)
{
	char	   *part;

	while ((part = strsep(&text, ",")) != NULL)
	{
		SimNodes   *nodes = &options->nodes[options->n_nodes];

		if (options->n_nodes == SIM_TYPES ||
			sscanf(part, "%m[^:]:%dx%d", &nodes->type, &nodes->nodes,
				   &nodes->gpus) != 3 ||
			nodes->nodes < 1 || nodes->gpus < 1 ||
			nodes->gpus > DECIDE_MAX_DEVICES)
			SimDie("--cluster takes TYPE:NODESxGPUS, not \"%s\"", part);
		options->n_nodes++;
	}
}

static const struct option options_known[] = {
	{"nodes", required_argument, NULL, 'n'},
	{"gpus", required_argument, NULL, 'g'},
	{"cluster", required_argument, NULL, 'c'},
	{"first", required_argument, NULL, 'f'},
	{"compress", required_argument, NULL, 'C'},
	{"walls", required_argument, NULL, 'w'},
	{"seed", required_argument, NULL, 's'},
	{"policy", required_argument, NULL, 'p'},
	{"order", required_argument, NULL, 'o'},
	{"packing", required_argument, NULL, 'P'},
	{"reclaim", no_argument, NULL, 'r'},
	{"no-reclaim", no_argument, NULL, 'R'},
	{"no-learning", no_argument, NULL, 'L'},
	{"one-account", no_argument, NULL, '1'},
	{"depth", required_argument, NULL, 'd'},
	{"max-wait", required_argument, NULL, 'W'},
	{"min-run", required_argument, NULL, 'm'},
	{"restart-cost", required_argument, NULL, 'D'},
	{"halflife", required_argument, NULL, 'H'},
	{"save-every", required_argument, NULL, 'S'},
	{"plot", required_argument, NULL, 'l'},
	{"starts", required_argument, NULL, 'O'},
	{"verify", no_argument, NULL, 'v'},
	{"every-cycle", no_argument, NULL, 'e'},
	{"values", no_argument, NULL, 'V'},
	{"advise", required_argument, NULL, 'a'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}
};

/*
 * Set one setting of one policy.  False: the option is no setting.
 */
static bool
set_policy(SimPolicy *policy, int option, const char *value)
{
	switch (option)
	{
		case 'o':
			policy->order = strcmp(value, "shortest") == 0 ?
				DECIDE_ORDER_SHORTEST : DECIDE_ORDER_FAIR;
			if (policy->order == DECIDE_ORDER_FAIR && strcmp(value, "fair") != 0)
				SimDie("--order is fair or shortest, not \"%s\"", value);
			return true;
		case 'P':
			if (strcmp(value, "pack") == 0)
				policy->packing = DECIDE_PACKING_PACK;
			else if (strcmp(value, "spread") == 0)
				policy->packing = DECIDE_PACKING_SPREAD;
			else if (strcmp(value, "fgd") == 0)
				policy->packing = DECIDE_PACKING_FGD;
			else
				SimDie("--packing is pack, spread or fgd, not \"%s\"", value);
			return true;
		case 'r':
			policy->reclaim = true;
			return true;
		case 'R':
			policy->reclaim = false;
			return true;
		case 'L':
			policy->learn = false;
			return true;
		case '1':
			policy->one_account = true;
			return true;
		case 'd':
			policy->depth = (int32_t) number(value, "depth");
			return true;
		case 'W':
			policy->max_wait = (int64_t) (number(value, "max-wait") * HOUR);
			policy->max_wait = policy->max_wait == 0 ? DECIDE_NEVER :
				policy->max_wait;
			return true;
		case 'm':
			policy->min_run = (int64_t) (number(value, "min-run") * 60 * SECOND);
			return true;
		case 'D':
			policy->restart_cost = (int64_t) (number(value, "restart-cost") *
											  60 * SECOND);
			return true;
		case 'H':
			policy->halflife = (int64_t) (number(value, "halflife") * HOUR);
			return true;
		case 'S':
			policy->save_every = (int64_t) (number(value, "save-every") * 60 *
											SECOND);
			policy->save_every = policy->save_every == 0 ? DECIDE_NEVER :
				policy->save_every;
			return true;
		default:
			return false;
	}
}

/*
 * Read an option that is no setting of a policy.
 */
static void
set_option(Options *options, int option, char *value)
{
	switch (option)
	{
		case 'n':
			options->nodes_each = (int) number(value, "nodes");
			break;
		case 'g':
			options->gpus_each = (int) number(value, "gpus");
			break;
		case 'c':
			read_cluster(options, value);
			break;
		case 'f':
			options->first = (int) number(value, "first");
			break;
		case 'C':
			options->compress = number(value, "compress");
			break;
		case 'w':
			if (sscanf(value, "%lf-%lf", &options->wall_least,
					   &options->wall_most) != 2 || options->wall_least < 1 ||
				options->wall_most < options->wall_least)
				SimDie("--walls takes A-B with 1 <= A <= B, not \"%s\"", value);
			break;
		case 's':
			options->seed = (uint64_t) number(value, "seed") + 1;
			break;
		case 'p':
			if (options->n_policies == MOST_POLICIES)
				SimDie("there are at most %d policies", MOST_POLICIES);
			options->policies[options->n_policies++] = named_policy(value);
			break;
		case 'l':
			options->plot = value;
			break;
		case 'O':
			options->starts = value;
			break;
		case 'v':
			options->verify = true;
			break;
		case 'e':
			options->every_cycle = true;
			break;
		case 'V':
			options->values = true;
			break;
		case 'a':
			options->advise = number(value, "advise");
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			SimDie("see tools/sim --help");
	}
}

static Options
read_options(int argc, char **argv)
{
	static const char *const usual[] = {"fifo", "easy", "sjf", "installed"};
	Options		options = {.nodes_each = 32, .gpus_each = 8,
		.compress = 1, .seed = 2, .advise = -1};
	SimPolicy	unused;
	int			option;
	int			i;

	while ((option = getopt_long(argc, argv, "", options_known, NULL)) != -1)
	{
		if (option == '?' || !set_policy(&unused, option, optarg))
			set_option(&options, option, optarg);
	}
	for (i = 0; options.n_policies == 0 && i < 4; i++)
		options.policies[i] = named_policy(usual[i]);
	options.n_policies = options.n_policies == 0 ? 4 : options.n_policies;
	optind = 1;
	while ((option = getopt_long(argc, argv, "", options_known, NULL)) != -1)
	{
		for (i = 0; i < options.n_policies; i++)
			(void) set_policy(&options.policies[i], option, optarg);
	}
	if (optind != argc - 1)
		SimDie("one trace is needed; see tools/sim --help");
	if (options.n_nodes == 0)
	{
		if (options.nodes_each < 1 || options.gpus_each < 1 ||
			options.gpus_each > DECIDE_MAX_DEVICES)
			SimDie("a cluster has nodes, of 1 to %d GPUs", DECIDE_MAX_DEVICES);
		options.nodes[options.n_nodes++] = (SimNodes)
		{
			NULL, options.nodes_each, options.gpus_each
		};
	}
	return options;
}

/*
 * The cluster's types are numbered as the trace's, where that names types.
 */
static int32_t
type_number(Sim *sim, const char *type)
{
	const SimTrace *trace = sim->trace;
	int32_t		i;

	if (trace->n_types == 0)
	{
		sim->n_types = sim->n_types > 0 ? sim->n_types : 1;
		return 0;
	}
	sim->n_types = trace->n_types;
	if (type == NULL)
		return 0;
	for (i = 0; i < trace->n_types; i++)
	{
		if (strcmp(trace->types[i], type) == 0)
			return i;
	}
	SimDie("%s has no column for type \"%s\"", trace->file, type);
}

static void
build_cluster(Sim *sim, const Options *options)
{
	int			total = 0;
	int			i;
	int			n;

	for (i = 0; i < options->n_nodes; i++)
		total += options->nodes[i].nodes;
	sim->nodes = SimAlloc((size_t) total, sizeof(DecideNode));
	for (i = 0; i < options->n_nodes; i++)
	{
		const SimNodes *nodes = &options->nodes[i];
		int32_t		type = type_number(sim, nodes->type);

		for (n = 0; n < nodes->nodes; n++)
		{
			DecideNode *node = &sim->nodes[sim->n_nodes++];
			char	   *name;

			if (asprintf(&name, "%s-%05d", nodes->type != NULL ? nodes->type :
						 "node", n + 1) < 0)
				SimDie("out of memory");
			*node = (DecideNode){
				.name = name, .type = type, .gpus = nodes->gpus,
				.gpu_memory_mib = 81920, .domain = DECIDE_OWN_GROUP,
				.leaf = DECIDE_OWN_GROUP, .schedulable = true,
				.usable = nodes->gpus == 64 ? UINT64_MAX :
				(UINT64_C(1) << nodes->gpus) - 1
			};
			sim->devices += nodes->gpus;
		}
	}
}

static int64_t
cluster_devices(const Options *options)
{
	int64_t		devices = 0;
	int			i;

	for (i = 0; i < options->n_nodes; i++)
		devices += (int64_t) options->nodes[i].nodes * options->nodes[i].gpus;
	return devices;
}

static SimOutcome
replay(SimTrace *trace, const Options *options, const SimPolicy *policy,
	   struct SimPlot *plot)
{
	Sim			sim = {.policy = policy, .trace = trace,
		.verify = options->verify, .every_cycle = options->every_cycle,
		.plot = plot};
	SimOutcome	out;
	struct timespec from;
	struct timespec until;

	SimTraceReset(trace);
	build_cluster(&sim, options);
	sim.queue = SimAlloc((size_t) trace->n_jobs + 1, sizeof(int32_t));
	sim.running = SimAlloc((size_t) trace->n_jobs + 1, sizeof(int32_t));
	if (plot != NULL)
		SimPlotPolicy(plot, policy->name);
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (policy->kind == SIM_CORE)
		SimCore(&sim);
	else
		SimYardstick(&sim);
	clock_gettime(CLOCK_MONOTONIC, &until);
	out = SimMeasure(&sim);
	out.seconds = (double) (until.tv_sec - from.tv_sec) +
		(double) (until.tv_nsec - from.tv_nsec) / 1e9;
	free(sim.queue);
	free(sim.running);
	for (int32_t i = 0; i < sim.n_nodes; i++)
		free((char *) sim.nodes[i].name);
	free(sim.nodes);
	return out;
}

static void
print_heading(void)
{
	printf("%-12s %8s %8s %8s %9s %6s %8s %5s %6s %8s %7s %6s %8s %6s %7s"
		   " %7s\n", "policy", "mean h", "p95 h", "longest", "slowdown", "used",
		   "evict/j", "most", "lost", "gangs h", "unfair", "fair", "promises",
		   "broken", "off h", "off90 h");
}

static void
print_outcome(const char *name, const SimOutcome *out)
{
	char		gangs[32] = "-";

	if (out->gang_wait >= 0)
		snprintf(gangs, sizeof(gangs), "%.2f", out->gang_wait);
	printf("%-12s %8.2f %8.2f %8.1f %9.1f %6.3f %8.3f %5d %6.3f %8s %7.3f"
		   " %6.3f %8ld %6ld %7.2f %7.2f\n", name, out->mean_wait, out->p95_wait,
		   out->longest_wait, out->slowdown, out->utilisation, out->evictions,
		   out->most_evictions, out->lost, gangs, out->unfairness,
		   out->fair_days, (long) out->promised, (long) out->broken,
		   out->expected_median, out->expected_p90);
}

static void
print_values(const char *name, const SimOutcome *out)
{
	printf("policy=%s mean=%.4f p95=%.4f longest=%.4f slowdown=%.4f"
		   " utilisation=%.4f evictions=%.4f most_evictions=%d"
		   " reclaims=%.4f most_reclaims=%d lost=%.5f"
		   " gangs=%.4f unfairness=%.4f fair_days=%.4f tenant_days=%ld"
		   " promised=%ld broken=%ld unnamed=%ld worst_break=%.4f"
		   " expected=%ld expected_median=%.4f expected_p90=%.4f"
		   " seconds=%.3f\n", name,
		   out->mean_wait, out->p95_wait, out->longest_wait, out->slowdown,
		   out->utilisation, out->evictions, out->most_evictions, out->reclaims,
		   out->most_reclaims, out->lost, out->gang_wait, out->unfairness, out->fair_days,
		   (long) out->tenant_days, (long) out->promised, (long) out->broken,
		   (long) out->unnamed, out->worst_break, (long) out->expected,
		   out->expected_median, out->expected_p90, out->seconds);
}

/* A replay on another number of nodes. */
typedef struct Advised
{
	SimTrace   *trace;
	Options		options;
} Advised;

static double
p95_on(void *context, int nodes)
{
	Advised    *advised = context;

	advised->options.nodes[0].nodes = nodes;
	return replay(advised->trace, &advised->options,
				  &advised->options.policies[0], NULL).weighed_p95_wait;
}

/*
 * Print the advice after a replay, and what the cluster needs.
 */
static void
print_advice(SimTrace *trace, const Options *options)
{
	Advised		advised = {trace, *options};
	int			gpus = options->nodes[0].gpus;
	int64_t		wait = (int64_t) (options->advise * (double) HOUR);
	CapacityAnswer use = SimAdvice(trace, DECIDE_NEVER, 900);
	CapacityAnswer waits = SimAdvice(trace, wait, DECIDE_WHOLE);
	double		load = SimLoad(trace);
	int			least = 1;
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		if ((trace->jobs[i].gpus + gpus - 1) / gpus > least)
			least = (trace->jobs[i].gpus + gpus - 1) / gpus;
	}
	if ((int) (load / gpus) > least)
		least = (int) (load / gpus);
	least = SimNodesNeeded(p95_on, &advised, least, options->advise);
	printf("supply=%d load=%.1f said=%.1f low=%.1f high=%.1f enough=%d"
		   " need90=%.1f said90=%ld need_wait=%d said_wait=%ld"
		   " said_low=%ld said_high=%ld\n",
		   options->nodes[0].nodes * gpus, load, (double) use.load / 1000,
		   (double) use.load_low / 1000, (double) use.load_high / 1000,
		   use.enough, load / 0.9, (long) use.needed, least * gpus,
		   (long) waits.needed, (long) waits.needed_low,
		   (long) waits.needed_high);
}

static void
write_starts(const SimTrace *trace, const char *file)
{
	FILE	   *out = fopen(file, "w");
	int32_t		i;

	if (out == NULL)
		SimDie("%s: cannot be written", file);
	fprintf(out, "job,start\n");
	for (i = 0; i < trace->n_jobs; i++)
	{
		if (trace->jobs[i].first_start >= 0)
			fprintf(out, "%s,%.6f\n", trace->jobs[i].name,
					(double) trace->jobs[i].first_start / (double) SECOND);
	}
	if (fclose(out) != 0)
		SimDie("%s: cannot be written", file);
}

int
main(int argc, char **argv)
{
	Options		options = read_options(argc, argv);
	SimTrace   *trace = SimTraceMake(argv[optind], cluster_devices(&options));
	struct SimPlot *plot = options.plot != NULL ? SimPlotOpen(options.plot) :
		NULL;
	int			i;

	if (trace == NULL)
		trace = SimTraceRead(argv[optind]);
	if (options.first > 0)
		SimTraceLimit(trace, options.first);
	SimTraceCompress(trace, options.compress);
	if (options.wall_most > 0)
		SimTraceStretchWalls(trace, options.wall_least, options.wall_most,
							 options.seed);
	if (!options.values)
		print_heading();
	for (i = 0; i < options.n_policies; i++)
	{
		SimOutcome	out = replay(trace, &options, &options.policies[i], plot);

		(options.values ? print_values : print_outcome)
			(options.policies[i].name, &out);
		fflush(stdout);
	}
	if (options.starts != NULL)
		write_starts(trace, options.starts);
	if (options.advise >= 0)
		print_advice(trace, &options);	/* replays the trace anew */
	if (plot != NULL)
		SimPlotClose(plot);
	return 0;
}
