/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The snowflake.* settings.
 *
 * All but snowflake.max_wait belong to the server, not to a session: they are
 * PGC_SIGHUP, so that nobody can use another worker id in one session.
 * snowflake.registry is PGC_POSTMASTER, because the lease worker is started
 * with the server.  That is possible only while the library is preloaded; if
 * it is loaded later, a registry cannot be used.
 *
 * If the library is loaded later, PostgreSQL has kept our settings as mere
 * text.  When we define them, it checks that text; if it is invalid,
 * PostgreSQL warns, takes the built-in value, and goes on: a server with the
 * worker id 'abc' would make the ids of worker 0.  The built-in value also
 * replaces that of the configuration if SET, the connection options, ALTER
 * ROLE or ALTER DATABASE have overridden the text, as PGC_SIGHUP refuses their
 * value.  So:
 *
 *		A process makes ids only if, when it loaded the library, each setting
 *		came from the server's configuration, or from nowhere, and was valid.
 *
 * A parallel worker loads the library before it takes over its leader's
 * values, if the leader has loaded it.  A built-in value that then replaces
 * one of the configuration is one that the leader must not use, either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "leaseworker.h"
#include "settings.h"
#include "shared.h"
#include "stats.h"
#include "worker.h"

int			setting_worker_id = 0;
int			setting_datacenter_id = 0;
Layout		setting_layout;
int			setting_sequence_start = SEQUENCE_START_RANDOM;
int			setting_max_ahead = 5000;
int			setting_max_wait = 1000;
int			setting_max_set_back = 86400;
int			setting_max_jump = 365 * 86400;
char	   *setting_registry = NULL;
int			setting_registry_lease = 60000;
char	   *setting_node_name = NULL;

uint32		settings_changes = 1;

static char *layout_text = NULL;
static bool preloaded = false;

static const struct config_enum_entry sequence_start_options[] = {
	{"random", SEQUENCE_START_RANDOM, false},
	{"zero", SEQUENCE_START_ZERO, false},
	{NULL, 0, false}
};

/* The settings that ids depend on. */
static struct
{
	const char *name;
	const char *takes;			/* its range, for errors */
	GucSource	source;			/* when the library was loaded */
}			server_settings[] =
{
	{.name = "snowflake.worker_id",.takes = "a whole number from 0 to 2147483647"},
	{.name = "snowflake.datacenter_id",.takes = "a whole number from 0 to 2147483647"},
	{.name = "snowflake.sequence_start",.takes = "\"random\" or \"zero\""},
	{.name = "snowflake.max_ahead",.takes = "a time from 0 to 2147483647 ms, or -1"},
	{.name = "snowflake.max_set_back",.takes = "a time from 0 to 2147483647 s, or -1"},
	{.name = "snowflake.max_jump",.takes = "a time from 0 to 2147483647 s, or -1"},
	{.name = "snowflake.registry",.takes = "a connection string of libpq"},
	{.name = "snowflake.layout",.takes = "a preset, or fields with their bits"}
};

/* What is wrong with one of them: its name, and the detail of the error. */
static const char *unusable_setting = NULL;
static char *unusable_detail = NULL;
static bool layout_is_unusable = false;

static bool
settings_check_layout(char **newval, void **extra, GucSource source)
{
	Layout		layout;
	char	   *reason;

	if (!LayoutParse(*newval, &layout, &reason))
	{
		GUC_check_errdetail("%s", reason);
		return false;
	}
	*extra = guc_malloc(LOG, sizeof(Layout));
	if (*extra == NULL)
		return false;
	memcpy(*extra, &layout, sizeof(Layout));
	return true;
}

/* What depends on the settings looks at them again. */
static void
settings_changed(void)
{
	settings_changes++;
}

static void
settings_assign_layout(const char *newval, void *extra)
{
	memcpy(&setting_layout, extra, sizeof(Layout));
	settings_changed();
}

static void
settings_assign_number(int newval, void *extra)
{
	settings_changed();
}

/* The postmaster logs a value that does not fit as soon as it reads it. */
static void
settings_log_unless_fitting(LayoutField field, const char *name, int value)
{
	settings_changed();
	if (!IsUnderPostmaster && shared != NULL && SharedLayoutIfFixed() != NULL)
		WorkerCheckField(LOG, &shared->layout, field, name, value);
}

static void
settings_assign_worker_id(int newval, void *extra)
{
	settings_log_unless_fitting(FIELD_WORKER, "snowflake.worker_id", newval);
}

static void
settings_assign_datacenter_id(int newval, void *extra)
{
	settings_log_unless_fitting(FIELD_DATACENTER, "snowflake.datacenter_id", newval);
}

/*
 * Why a text is not a connection string, or NULL.  Only libpq can tell, so we
 * load the lease worker's library, which uses it.  If that fails, we must not
 * throw: an error would end a postmaster that rereads its configuration.
 */
static char *
settings_why_no_connection_string(const char *text)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile reason = NULL;

	PG_TRY();
	{
		CheckConnectionStringFunction check = (CheckConnectionStringFunction)
		load_external_function(LEASE_LIBRARY, "SnowflakeCheckConnectionString",
							   true, NULL);

		reason = check(text);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		reason = psprintf("The library of the lease worker could not be loaded: %s.",
						  CopyErrorData()->message);
		FlushErrorState();
	}
	PG_END_TRY();
	return reason;
}

static bool
settings_check_registry(char **newval, void **extra, GucSource source)
{
	char	   *reason;

	if (**newval == '\0')
		return true;
	reason = settings_why_no_connection_string(*newval);
	if (reason != NULL)
		GUC_check_errdetail("%s", reason);
	return reason == NULL;
}

static void
settings_assign_registry(const char *newval, void *extra)
{
	settings_changed();
}

/*
 * Define the settings of the lease worker.  If the library is not preloaded,
 * nobody needs them, and they would make sessions slower to begin.
 */
static void
settings_define_lease(void)
{
	if (preloaded || compat_find_setting("snowflake.registry_lease") != NULL)
		DefineCustomIntVariable("snowflake.registry_lease",
								"Sets how long the lease of a worker id lasts.",
								"The lease is renewed after each third of this time. While the registry cannot be reached, ids are made until the lease ends.",
								&setting_registry_lease, 60000, 1000,
								24 * 3600 * 1000, PGC_SIGHUP,
								GUC_UNIT_MS | GUC_ALLOW_IN_PARALLEL, NULL,
								NULL, NULL);
	if (preloaded || compat_find_setting("snowflake.node_name") != NULL)
		DefineCustomStringVariable("snowflake.node_name",
								   "Sets the name of this server in the registry.",
								   "If empty, the name consists of the host name and the port. A server that asks the registry again under the same name gets its last worker id, if that is free.",
								   &setting_node_name, "", PGC_SIGHUP, GUC_ALLOW_IN_PARALLEL,
								   NULL, NULL, NULL);
}

/* The settings that are numbers, up to INT_MAX. */
static const struct
{
	const char *name;
	const char *purpose;
	const char *details;
	int		   *value;
	int			boot_value;
	int			least;
	GucContext	context;
	int			unit;
	GucIntAssignHook assign;
}			number_settings[] = {

	{"snowflake.worker_id",
		"Sets the number that tells this server's ids from those of other servers.",
		"It must fit the \"worker\" field of snowflake.layout, and must differ between servers, except between a primary and its standbys.",
	&setting_worker_id, 0, 0, PGC_SIGHUP, 0, settings_assign_worker_id},
	{"snowflake.datacenter_id",
		"Sets the number of the datacenter in this server's ids.",
		"It must fit the \"datacenter\" field of snowflake.layout.",
		&setting_datacenter_id, 0, 0, PGC_SIGHUP, 0,
	settings_assign_datacenter_id},
	{"snowflake.max_ahead",
		"Sets how far ids can be ahead of the time that they follow.",
		"Ids are ahead of it while they are needed faster than the layout provides them. -1 means no bound.",
		&setting_max_ahead, 5000, -1, PGC_SIGHUP, GUC_UNIT_MS,
	settings_assign_number},
	{"snowflake.max_set_back",
		"Sets how far the clock can be set back while ids go on.",
		"Ids go on from where they were, a little slower than the clock, until it has caught up. If it was set back further, calls wait or fail. -1 means no bound.",
		&setting_max_set_back, 86400, -1, PGC_SIGHUP, GUC_UNIT_S,
	settings_assign_number},
	{"snowflake.max_jump",
		"Sets how far the clock can jump ahead before it is refused.",
		"Smaller jumps are followed once they have lasted for some seconds. If a larger one is right, raise this until ids have been made. -1 means no bound.",
		&setting_max_jump, 365 * 86400, -1, PGC_SIGHUP, GUC_UNIT_S,
	settings_assign_number},
	{"snowflake.max_wait",
		"Sets how long a call waits for the clock, a lease or the mark before it fails.",
		"A call waits for the clock when its id would be further ahead of it than snowflake.max_ahead allows.",
	&setting_max_wait, 1000, 0, PGC_USERSET, GUC_UNIT_MS, NULL},
};

/* See whether a setting, defined now, is what the configuration says. */
static void
settings_check(int i, const char *value)
{
	const char *name = server_settings[i].name;
	bool		is_layout = strcmp(name, "snowflake.layout") == 0;
	char	   *reason = NULL;
	char	   *detail;
	Layout		layout;

	if (server_settings[i].source > PGC_S_ARGV)
		detail = pstrdup("A value from SET, the connection options, ALTER ROLE or ALTER DATABASE hides the one in the server's configuration.");
	else if (server_settings[i].source == PGC_S_DEFAULT ||
			 compat_find_setting(name)->source != PGC_S_DEFAULT)
		return;
	/* do not show a text that may have a password in it */
	else if (strcmp(name, "snowflake.registry") == 0)
		detail = psprintf("The configuration has a value that is not %s.", server_settings[i].takes);
	else if (is_layout && !LayoutParse(value, &layout, &reason))
		detail = psprintf("The configuration says \"%s\". %s", value, reason);
	else
		detail = psprintf("The configuration says \"%s\", but the parameter takes %s.",
						  value, server_settings[i].takes);

	layout_is_unusable |= is_layout;
	unusable_setting = name;
	unusable_detail = MemoryContextStrdup(TopMemoryContext, detail);
}

void
SettingsDefine(void)
{
	char	   *values[lengthof(server_settings)] = {NULL};

	preloaded = process_shared_preload_libraries_in_progress;
	for (int i = 0; i < lengthof(server_settings); i++)
	{
		struct config_generic *record =
		compat_find_setting(server_settings[i].name);
		const char *value;

		if (record == NULL)
			continue;
		server_settings[i].source = record->source;
		/* one that was taken out of the configuration is NULL */
		value = GetConfigOption(server_settings[i].name, false, false);
		values[i] = value == NULL ? NULL : pstrdup(value);
	}

	for (int i = 0; i < lengthof(number_settings); i++)
		DefineCustomIntVariable(number_settings[i].name,
								number_settings[i].purpose,
								number_settings[i].details,
								number_settings[i].value,
								number_settings[i].boot_value,
								number_settings[i].least, INT_MAX,
								number_settings[i].context,
								number_settings[i].unit |
								GUC_ALLOW_IN_PARALLEL, NULL,
								number_settings[i].assign, NULL);

	DefineCustomStringVariable("snowflake.layout",
							   "Sets how the bits of an id are divided into fields.",
							   "A preset such as \"twitter\", or fields with their bits, tick and epoch. A change takes effect at the next start of the server.",
							   &layout_text, "snowflake", PGC_SIGHUP, GUC_ALLOW_IN_PARALLEL,
							   settings_check_layout, settings_assign_layout,
							   NULL);
	DefineCustomEnumVariable("snowflake.sequence_start",
							 "Sets where the sequence starts in a new tick.",
							 "\"random\" starts within the lower half of the field, so that ids spread evenly modulo any number, even if few are made; \"zero\" starts at 0.",
							 &setting_sequence_start, SEQUENCE_START_RANDOM,
							 sequence_start_options,
							 PGC_SIGHUP, GUC_ALLOW_IN_PARALLEL, NULL,
							 settings_assign_number, NULL);
	DefineCustomStringVariable("snowflake.registry",
							   "Sets the connection string of the database to lease a worker id from.",
							   "The database must have the extension \"snowflake_registry\". If empty, the worker id comes from snowflake.worker_id.",
							   &setting_registry, "", preloaded ? PGC_POSTMASTER : PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY | GUC_ALLOW_IN_PARALLEL,
							   settings_check_registry,
							   settings_assign_registry, NULL);
	settings_define_lease();

	MarkGUCPrefixReserved("snowflake");

	for (int i = 0; i < lengthof(server_settings); i++)
		settings_check(i, values[i]);
}

/*
 * Throw an error if ids cannot be made with the settings.  Only this makes the
 * difference: nothing that reads ids fails because of settings that it does
 * not use.
 */
void
SettingsCheckUsable(void)
{
	const char *name = SettingsUnusable();

	if (name == NULL)
		return;
	if (unusable_setting != NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("parameter \"%s\" cannot be used", name),
				 errdetail("%s", unusable_detail),
				 errhint("Correct it, and start a new session or, if the library is preloaded, restart the server.")));
	if (SettingsRegistryIsUsed())
		ereport(ERROR,
				(StatsErrcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("parameter \"snowflake.registry\" cannot be used"),
				 errdetail("The worker that leases worker ids can only be started with the server."),
				 errhint("Add \"snowflake\" to \"shared_preload_libraries\" and restart the server.")));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("parameter \"%s\" cannot be used in a parallel query", name),
			 errdetail("The session does not have the value of the server's configuration."),
			 errhint("If the configuration was reloaded while the statement ran, run it again.")));
}

/*
 * Whether the worker id is leased.  The generator calls SettingsCheckUsable()
 * before it relies on this: if a registry is configured, but cannot be used,
 * the server must not fall back to snowflake.worker_id.
 */
bool
SettingsRegistryIsUsed(void)
{
	return setting_registry[0] != '\0';
}

/* Whether the settings were defined when the server was started. */
bool
SettingsArePreloaded(void)
{
	return preloaded;
}

/*
 * The setting for which SettingsCheckUsable() would throw an error, or NULL.
 */
const char *
SettingsUnusable(void)
{
	if (unusable_setting != NULL)
		return unusable_setting;
	if (SettingsRegistryIsUsed() && !preloaded)
		return "snowflake.registry";
	for (int i = 0;
		 !preloaded && IsParallelWorker() && i < lengthof(server_settings);
		 i++)
	{
		if (server_settings[i].source != PGC_S_DEFAULT &&
			compat_find_setting(server_settings[i].name)->source ==
			PGC_S_DEFAULT)
			return server_settings[i].name;
	}
	return NULL;
}

/* Whether setting_layout is what the server's configuration says. */
bool
SettingsLayoutIsUsable(void)
{
	return !layout_is_unusable;
}
