/*-------------------------------------------------------------------------
 *
 * document.c
 *		Reads Kubernetes' JSON documents.
 *
 * A tenant's values may have any type and size: a getter returns NULL or -1
 * for a value of the wrong form.
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "document.h"

#define LONGEST_GRACE_S		(10L * 365 * 86400)

json_t *
DocumentAt(json_t * object, const char *const *names)
{
	while (object != NULL && *names != NULL)
		object = json_object_get(object, *names++);
	return object;
}

/*
 * Parses an instant, in whole seconds since the epoch. Returns 0 if there is
 * none.
 */
time_t
DocumentTime(json_t * object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	struct tm	tm = {0};
	time_t		at;

	if (text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return 0;
	at = timegm(&tm);
	return at > 0 ? at : 0;
}

/*
 * Returns a grace period in seconds, limited to ten years. A negative one
 * becomes 1, as in kubelet.
 */
long
DocumentGrace(json_t * seconds)
{
	json_int_t	its = json_integer_value(seconds);

	return its < 0 ? 1 : its > LONGEST_GRACE_S ? LONGEST_GRACE_S : its;
}

/*
 * Parses a count of decimal digits. Returns -1 if the text is not a count or
 * exceeds "most".
 */
long
DocumentCount(const char *text, long most)
{
	long		count = 0;

	if (text == NULL || *text == '\0')
		return -1;
	for (; *text != '\0'; text++)
	{
		if (*text < '0' || *text > '9')
			return -1;
		count = count * 10 + (*text - '0');
		if (count > most)
			return -1;
	}
	return count;
}

/*
 * Parses a duration: a number of seconds, or a number followed by s, m, h or
 * d. Returns its seconds, or -1 if the text is no duration from one second to
 * 1,000 days.
 */
long
DocumentSeconds(const char *text)
{
	static const char units[] = "smhd";
	static const long seconds[] = {1, 60, 3600, 86400};
	char		digits[16] = "";
	size_t		n = text == NULL ? 0 : strlen(text);
	const char *unit;
	long		count;

	if (n == 0 || n >= sizeof(digits))
		return -1;
	unit = strchr(units, text[n - 1]);
	memcpy(digits, text, unit == NULL ? n : n - 1);
	count = DocumentCount(digits, 86400000);
	if (unit != NULL && count > 0)
		count *= seconds[unit - units];
	return count < 1 || count > 86400000 ? -1 : count;
}

/*
 * Whether one resourceVersion is older than another. False unless both are
 * numbers.
 */
bool
DocumentOlder(const char *one, const char *other)
{
	size_t		len = one == NULL ? 0 : strlen(one);
	size_t		its = other == NULL ? 0 : strlen(other);

	if (len == 0 || its == 0 || strspn(one, "0123456789") != len ||
		strspn(other, "0123456789") != its)
		return false;
	return len != its ? len < its : strcmp(one, other) < 0;
}
