/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The snowflake.* settings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SETTINGS_H
#define SNOWFLAKE_SETTINGS_H

#include "layout.h"

typedef enum SequenceStart
{
	SEQUENCE_START_RANDOM,
	SEQUENCE_START_ZERO
} SequenceStart;

extern int	setting_worker_id;
extern int	setting_datacenter_id;
extern Layout setting_layout;	/* parsed; may not be the one in force */
extern int	setting_sequence_start; /* a SequenceStart */
extern int	setting_max_ahead;	/* in ms, -1: any */
extern int	setting_max_wait;	/* in ms */
extern int	setting_max_set_back;	/* in s, -1: any */
extern int	setting_max_jump;	/* in s, -1: any */
extern char *setting_registry;	/* a connection string, or empty */
extern int	setting_registry_lease; /* in ms */
extern char *setting_node_name; /* empty: made from host and port */

/* Why ids cannot be made with a setting, for errors and status. */
typedef struct SettingProblem
{
	const char *name;
	const char *detail;
	const char *hint;
} SettingProblem;

extern void SettingsDefine(void);
extern void SettingsCheckUsable(void);
extern bool SettingsLayoutIsUsable(void);
extern bool SettingsRegistryIsUsed(void);
extern bool SettingsArePreloaded(void);
extern const SettingProblem *SettingsProblem(void);

#endif							/* SNOWFLAKE_SETTINGS_H */
