/*-------------------------------------------------------------------------
 *
 * settings.h
 *		A configuration file: lines "name = value".
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_SETTINGS_H
#define GPUCREDIT_AGENT_SETTINGS_H

#include <stdbool.h>

/* a text, or a number within bounds */
typedef struct Setting
{
	const char *name;
	char	  **text;
	long	   *number;
	long		least;
	long		most;
} Setting;

/* false: there is no such setting */
typedef bool (*SettingOther) (const char *name, const char *value,
							  const char *path, int line);

extern void SettingsRead(const char *path, const Setting *table, int n,
						 SettingOther other);
extern long SettingNumber(const char *value, long least, long most,
						  const char *name, const char *path, int line);

#endif							/* GPUCREDIT_AGENT_SETTINGS_H */
