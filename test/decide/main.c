/*
 * main.c
 *	  Runs the tests of the decision core, or its benchmark.
 *
 *	  runner check FILE...     scenarios, then random instances; prints TAP
 *	  runner bench [FOLDER]    timings, with openb's CSV files if given
 *	  runner openb FOLDER [SEEDS]	  how much a full pool leaves unused
 *	  runner msr FOLDER [CLUSTERS [SEED]]	  waits and completion times
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Reports one test.
 */
void
tap_ok(Tap *tap, bool passed, const char *name, const char *why)
{
	tap->run++;
	if (!passed)
		tap->failed++;
	printf("%s %d - %s\n", passed ? "ok" : "not ok", tap->run, name);
	if (!passed && why != NULL)
	{
		const char *at = why;

		while (*at != '\0')
		{
			size_t		n = strcspn(at, "\n");

			printf("#   %.*s\n", (int) n, at);
			at += n + (at[n] == '\n');
		}
	}
}

int
main(int argc, char **argv)
{
	const char *instances = getenv("INSTANCES");
	int			n = instances != NULL ? atoi(instances) : 12000;
	Tap			tap = {0, 0};
	int			i;

	if (argc >= 2 && strcmp(argv[1], "bench") == 0)
		return bench_all(argc > 2 ? argv[2] : NULL);
	if (argc >= 2 && strcmp(argv[1], "leaves") == 0)
		return leaves_all();
	if (argc >= 3 && strcmp(argv[1], "openb") == 0)
		return openb_all(argv[2], argc > 3 ? atoi(argv[3]) : 10);
	if (argc >= 3 && strcmp(argv[1], "msr") == 0)
		return msr_all(argv[2], argc > 3 && atoi(argv[3]) == 1 ? 1 : 2,
					   argc > 4 ? atoi(argv[4]) : 1);
	if (argc < 3 || strcmp(argv[1], "check") != 0)
	{
		fprintf(stderr, "usage: %s check FILE... | bench [FOLDER] | "
				"leaves | openb FOLDER [SEEDS] | msr FOLDER [CLUSTERS [SEED]]\n",
				argv[0]);
		return 2;
	}
	for (i = 2; i < argc; i++)
	{
		if (!scenario_file(&tap, argv[i]))
			tap_ok(&tap, false, argv[i], "could not be read");
	}
	trace_tests(&tap);
	decay_tests(&tap);
	property_tests(&tap, n);
	reserve_tests(&tap, n / 30);
	stream_tests(&tap, n / 8);
	guarantee_tests(&tap, n / 8);
	aged_tests(&tap);
	claims_property_tests(&tap, n / 4);
	entitled_tests(&tap, n / 8);
	grown_tests(&tap, n / 8);
	gangs_tests(&tap, n / 4);
	leaves_tests(&tap);
	mutation_tests(&tap);
	rescue_tests(&tap, n);
	fixpoint_tests(&tap, n / 12);
	printf("1..%d\n", tap.run);
	return tap.failed > 0;
}
