/*-------------------------------------------------------------------------
 *
 * spot.c
 *		gpucredit-agent spot CONFIG: asks the cloud whether it takes this
 *		machine back.
 *
 * A metadata service may be slow or silent, so a separate process asks it,
 * which spot_watch.c starts. After each request it writes one line:
 *
 *     notice LEFT_MS WHAT   The machine is gone after so many milliseconds.
 *     none                  There is no notice.
 *     failed WHY            The service gave no answer that has a meaning.
 *
 * What each cloud answers:
 *
 *     aws     instance-action {"action": ..., "time": ...}, or status 404. A
 *             request needs a token (IMDSv2).
 *     gcp     instance/preempted TRUE or FALSE. The machine has 30 s then, of
 *             which the time between two requests may have passed.
 *     azure   a list of events. The events Preempt and Terminate of which a
 *             resource is this machine count.
 *-------------------------------------------------------------------------
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "memory.h"
#include "metadata.h"
#include "spot.h"

#define MS_PER_S		1000
#define LEFT_MOST_S		3600	/* a notice is at most this far from now */
#define GCP_LEFT_S		30
#define TOKEN_S			"21600"
#define TOKEN_RENEW		(3600 * NS_PER_S)
#define TOKEN_MOST		255
#define NAME_MOST		255

typedef enum SpotAnswer
{
	SPOT_NONE, SPOT_NOTICE, SPOT_FAILED
} SpotAnswer;

/* What the last request said. */
static int64_t left_ms;
static const char *what;		/* a word about a notice, or why it failed */
static MetadataAnswer answer;

static SpotAnswer ask_aws(void);
static SpotAnswer renew_token(void);
static SpotAnswer ask_gcp(void);
static SpotAnswer ask_azure(void);
static SpotAnswer learn_name(void);
static SpotAnswer read_events(json_t * events);
static bool concerns_us(const json_t * event);
static SpotAnswer soonest_event(const json_t * event);
static SpotAnswer notice_at(const char *time, const char *format);
static SpotAnswer failed(const char *why);
static bool is_plain(const char *text, size_t most);

/*
 * Asks until the agent ends. The kernel ends this process with the agent.
 */
void
SpotRun(void)
{
	if (!MetadataOpen())
	{
		printf("failed out of memory\n");
		exit(1);
	}
	for (;;)
	{
		int64_t		began = MonotonicNs();
		int64_t		rest;
		SpotAnswer	said;

		if (strcmp(config.spot, "aws") == 0)
			said = ask_aws();
		else if (strcmp(config.spot, "gcp") == 0)
			said = ask_gcp();
		else
			said = ask_azure();
		if (said == SPOT_NOTICE)
			printf("notice %lld %s\n", (long long) left_ms, what);
		else if (said == SPOT_NONE)
			printf("none\n");
		else
			printf("failed %s\n", what);
		if (fflush(stdout) != 0)
			exit(0);
		rest = began + config.spot_poll_ms * NS_PER_MS - MonotonicNs();
		if (rest > 0)
			(void) usleep(rest / 1000);
	}
}

static char token[TOKEN_MOST + 1];
static int64_t token_ns;		/* when it was issued */

/* Reads the notice of AWS. */
static SpotAnswer
ask_aws(void)
{
	static const char *const actions[] = {"terminate", "stop", "hibernate"};
	const char *headers[METADATA_HEADERS] = {NULL};
	const char *why;
	char	   *header;
	json_t	   *notice;
	const char *action;
	SpotAnswer	said = SPOT_FAILED;

	if ((*token == '\0' || MonotonicNs() - token_ns > TOKEN_RENEW) &&
		renew_token() == SPOT_FAILED)
		return SPOT_FAILED;
	header = Format("X-aws-ec2-metadata-token: %s", token);
	headers[0] = header;
	why = MetadataRequest("GET", "/latest/meta-data/spot/instance-action",
						  headers, &answer);
	free(header);
	if (why != NULL)
		return failed(why);
	if (answer.status == 404)
		return SPOT_NONE;
	if (answer.status == 401)
		*token = '\0';
	if (answer.status != 200)
		return failed("instance-action has an unexpected status");
	notice = json_loadb(answer.body, answer.size, JSON_REJECT_DUPLICATES,
						NULL);
	action = json_string_value(json_object_get(notice, "action"));
	what = "other";
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
	{
		if (action != NULL && strcmp(action, actions[i]) == 0)
			what = actions[i];
	}
	if (action == NULL)
		(void) failed("instance-action names no action");
	else
		said = notice_at(json_string_value(json_object_get(notice, "time")),
						 "%Y-%m-%dT%H:%M:%SZ");
	json_decref(notice);
	return said;
}

/* Gets a token for the requests of the next hours. */
static SpotAnswer
renew_token(void)
{
	static const char *const headers[METADATA_HEADERS] = {
		"X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_S
	};
	const char *why = MetadataRequest("PUT", "/latest/api/token", headers,
									  &answer);

	*token = '\0';
	if (why != NULL)
		return failed(why);
	if (answer.status != 200 || !is_plain(answer.body, TOKEN_MOST))
		return failed("the service issues no token");
	strcpy(token, answer.body);
	token_ns = MonotonicNs();
	return SPOT_NONE;
}

/*
 * Reads the notice of Google Cloud. It names no instant, so the time that is
 * left counts from when the notice was first seen.
 */
static SpotAnswer
ask_gcp(void)
{
	static const char *const headers[METADATA_HEADERS] = {
		"Metadata-Flavor: Google"
	};
	static int64_t until_ns;
	const char *why = MetadataRequest("GET",
									  "/computeMetadata/v1/instance/preempted",
									  headers, &answer);
	bool		is_true;

	if (why != NULL)
		return failed(why);
	answer.body[strcspn(answer.body, "\r\n")] = '\0';
	is_true = strcmp(answer.body, "TRUE") == 0;
	if (answer.status != 200 ||
		(!is_true && strcmp(answer.body, "FALSE") != 0))
		return failed("instance/preempted is neither TRUE nor FALSE");
	if (!is_true)
	{
		until_ns = 0;
		return SPOT_NONE;
	}
	if (until_ns == 0)
		until_ns = MonotonicNs() + GCP_LEFT_S * NS_PER_S -
			config.spot_poll_ms * NS_PER_MS;
	left_ms = (until_ns - MonotonicNs()) / NS_PER_MS;
	if (left_ms < 0)
		left_ms = 0;
	what = "preempted";
	return SPOT_NOTICE;
}

static char machine[NAME_MOST + 1]; /* the name that Azure has for this one */

/* Reads the scheduled events of Azure. */
static SpotAnswer
ask_azure(void)
{
	static const char *const headers[METADATA_HEADERS] = {"Metadata: true"};
	const char *why;
	json_t	   *document;
	SpotAnswer	said;

	if (*machine == '\0' && learn_name() == SPOT_FAILED)
		return SPOT_FAILED;
	why = MetadataRequest("GET",
						  "/metadata/scheduledevents?api-version=2020-07-01",
						  headers, &answer);
	if (why != NULL)
		return failed(why);
	if (answer.status != 200)
		return failed("scheduledevents has an unexpected status");
	document = json_loadb(answer.body, answer.size, 0, NULL);
	said = read_events(json_object_get(document, "Events"));
	json_decref(document);
	return said;
}

/* Learns this machine's name, as events are those of all its scale set. */
static SpotAnswer
learn_name(void)
{
	static const char *const headers[METADATA_HEADERS] = {"Metadata: true"};
	const char *why = MetadataRequest("GET",
									  "/metadata/instance/compute/name"
									  "?api-version=2021-02-01&format=text",
									  headers, &answer);

	if (why != NULL)
		return failed(why);
	if (answer.status != 200 || !is_plain(answer.body, NAME_MOST))
		return failed("the service does not name this machine");
	strcpy(machine, answer.body);
	return SPOT_NONE;
}

/* Finds the soonest event that ends this machine. */
static SpotAnswer
read_events(json_t * events)
{
	SpotAnswer	said = SPOT_NONE;
	int64_t		soonest_ms = 0;
	const char *soonest_what = NULL;
	size_t		i;
	json_t	   *event;

	if (!json_is_array(events))
		return failed("scheduledevents has no list of events");
	json_array_foreach(events, i, event)
	{
		SpotAnswer	one = concerns_us(event) ? soonest_event(event) :
			SPOT_NONE;

		if (one == SPOT_NOTICE && (said != SPOT_NOTICE ||
								   left_ms < soonest_ms))
		{
			soonest_ms = left_ms;
			soonest_what = what;
		}
		if (one == SPOT_NOTICE || said == SPOT_NONE)
			said = one;
	}
	if (said == SPOT_NOTICE)
	{
		left_ms = soonest_ms;
		what = soonest_what;
	}
	return said;
}

/* Whether an event ends a machine, and this one. */
static bool
concerns_us(const json_t * event)
{
	const char *type = json_string_value(json_object_get(event, "EventType"));
	size_t		i;
	json_t	   *resource;

	if (type == NULL || (strcmp(type, "Preempt") != 0 &&
						 strcmp(type, "Terminate") != 0))
		return false;
	json_array_foreach(json_object_get(event, "Resources"), i, resource)
	{
		if (json_is_string(resource) &&
			strcasecmp(json_string_value(resource), machine) == 0)
			return true;
	}
	return false;
}

/* Reads when an event begins. One that has begun names no instant. */
static SpotAnswer
soonest_event(const json_t * event)
{
	const char *at = json_string_value(json_object_get(event, "NotBefore"));

	what = strcmp(json_string_value(json_object_get(event, "EventType")),
				  "Preempt") == 0 ? "preempt" : "terminate";
	if (at != NULL && *at == '\0')
	{
		left_ms = 0;
		return SPOT_NOTICE;
	}
	return notice_at(at, "%a, %d %b %Y %H:%M:%S GMT");
}

/*
 * Sets how much time is left until an instant, by the service's own clock. An
 * instant that is far from now is a mistake, and must not end jobs.
 */
static SpotAnswer
notice_at(const char *time, const char *format)
{
	struct tm	broken = {0};
	const char *end = time == NULL ? NULL : strptime(time, format, &broken);
	int64_t		left_s;

	if (end == NULL || *end != '\0')
		return failed("the notice names no instant");
	left_s = (int64_t) timegm(&broken) - answer.date;
	if (left_s > LEFT_MOST_S || left_s < -LEFT_MOST_S)
		return failed("the notice's instant is more than an hour from now");
	left_ms = left_s < 0 ? 0 : left_s * MS_PER_S;
	return SPOT_NOTICE;
}

static SpotAnswer
failed(const char *why)
{
	what = why;
	return SPOT_FAILED;
}

/* Whether a text is not empty, has printable characters alone, and fits. */
static bool
is_plain(const char *text, size_t most)
{
	size_t		len = strlen(text);

	for (size_t i = 0; i < len; i++)
	{
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	}
	return len > 0 && len <= most && answer.size == len;
}
