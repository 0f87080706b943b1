/*-------------------------------------------------------------------------
 *
 * dependency_fuzz.c
 *		Fuzz target: what a job waits for.
 *
 * What parses must print, parse back and be the same, and each term alone must
 * parse to itself.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "types/dependency_parse.h"

static void check_same(const DependencyTerm *a, const DependencyTerm *b);

/*
 * One input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = malloc(size + 1);
	char		printed[DEPENDENCY_MOST * DEPENDENCY_TERM_SIZE];
	size_t		length = 0;
	Dependency	first;
	Dependency	again;

	memcpy(text, data, size);
	text[size] = '\0';
	if (DependencyParse(text, &first) == NULL)
	{
		CHECK(first.n > 0 && first.n <= DEPENDENCY_MOST);
		for (int i = 0; i < first.n; i++)
		{
			char		term[DEPENDENCY_TERM_SIZE];

			CHECK(DependencyTermPrint(&first.terms[i], term) < sizeof(term));
			CHECK(DependencyParse(term, &again) == NULL && again.n == 1);
			check_same(&first.terms[i], &again.terms[0]);
			length += (size_t) sprintf(printed + length, "%s%s", i == 0 ? "" :
									   first.any ? "?" : ",", term);
		}
		CHECK(DependencyParse(printed, &again) == NULL);
		CHECK(again.n == first.n && (again.any == first.any || first.n == 1));
		for (int i = 0; i < first.n; i++)
			check_same(&first.terms[i], &again.terms[i]);
	}
	free(text);
	return 0;
}

/*
 * Two terms are the same.
 */
static void
check_same(const DependencyTerm *a, const DependencyTerm *b)
{
	CHECK(a->kind == b->kind && a->scope == b->scope && a->job == b->job);
	CHECK(a->task == b->task && a->minutes == b->minutes);
	CHECK(a->job > 0 || a->kind == AFTER_SINGLETON);
}
