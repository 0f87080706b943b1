/*-------------------------------------------------------------------------
 *
 * settings.h
 *		Reads a configuration file with lines of the form "name = value".
 *-------------------------------------------------------------------------
 */
#ifndef LIB_SETTINGS_H
#define LIB_SETTINGS_H

#include <stdbool.h>

/*
 * One setting: a text, or a number between "least" and "most". Exactly one of
 * the pointers "text" and "number" is set.
 */
typedef struct Setting
{
	const char *name;
	char	  **text;
	long	   *number;
	long		least;
	long		most;
} Setting;

/*
 * Handles a setting that is not in the table. Returns false if it does not
 * know the setting either.
 */
typedef bool (*SettingOther) (const char *name, const char *value,
							  const char *path, int line);

extern void SettingsRead(const char *path, const Setting *table, int n,
						 SettingOther other);
extern long SettingNumber(const char *value, long least, long most,
						  const char *name, const char *path, int line);

#endif							/* LIB_SETTINGS_H */
