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
 * values, if the leader has loaded it.  If a built-in value of the leader then
 * replaces one of the configuration, the worker makes no ids, as the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"

#include "snowflake.h"

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

bool		settings_are_preloaded = false;

static char *layout_text = NULL;
static bool layout_is_unusable = false;

static const struct config_enum_entry sequence_start_options[] = {
	{"random", SEQUENCE_START_RANDOM, false},
	{"zero", SEQUENCE_START_ZERO, false},
	{NULL, 0, false}
};

/* The settings that ids depend on. */
static const char *const server_settings[] = {
	"snowflake.worker_id",
	"snowflake.datacenter_id",
	"snowflake.sequence_start",
	"snowflake.max_ahead",
	"snowflake.max_set_back",
	"snowflake.max_jump",
	"snowflake.registry",
	"snowflake.layout"
};

/* Where their values came from when the library was loaded. */
static GucSource found_sources[lengthof(server_settings)];

/* What was wrong then with one of them; its name is NULL if nothing was. */
static SettingProblem found_problem;

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

static void
settings_assign_layout(const char *newval, void *extra)
{
	memcpy(&setting_layout, extra, sizeof(Layout));
}

/*
 * Define the settings of the lease worker.  If the library is not preloaded,
 * nobody needs them, and they would make sessions slower to begin: PostgreSQL
 * 15 sorts all settings whenever one is defined.
 */
static void
settings_define_lease(void)
{
	if (settings_are_preloaded || compat_find_setting("snowflake.registry_lease") != NULL)
		DefineCustomIntVariable("snowflake.registry_lease",
								"Sets how long the lease of a worker id lasts.",
								"The lease is renewed after each third of this time. While the registry cannot be reached, ids are made until the lease ends.",
								&setting_registry_lease, 60000, 1000,
								24 * 3600 * 1000, PGC_SIGHUP,
								GUC_UNIT_MS | GUC_ALLOW_IN_PARALLEL, NULL,
								NULL, NULL);
	if (settings_are_preloaded || compat_find_setting("snowflake.node_name") != NULL)
		DefineCustomStringVariable("snowflake.node_name",
								   "Sets the name of this server in the registry.",
								   "If empty, the name consists of the host name and the port. A server that asks the registry again under the same name gets its last worker id, if that is free.",
								   &setting_node_name, "", PGC_SIGHUP, GUC_ALLOW_IN_PARALLEL,
								   NULL, NULL, NULL);
}

/* See whether a setting, defined now, is what the configuration says. */
static void
settings_check(const char *name, GucSource source)
{
	if (source > PGC_S_ARGV)
		found_problem.detail = "A value from SET, the connection options, ALTER ROLE or ALTER DATABASE hides the one in the server's configuration.";
	else if (source != PGC_S_DEFAULT &&
			 compat_find_setting(name)->source == PGC_S_DEFAULT)
		found_problem.detail = "Its value in the server's configuration is invalid: a warning said why when the library was loaded.";
	else
		return;
	found_problem.name = name;
	found_problem.hint = "Correct it, and start a new session or, if the library is preloaded, restart the server.";
	layout_is_unusable |= strcmp(name, "snowflake.layout") == 0;
}

void
SettingsDefine(void)
{
	settings_are_preloaded = process_shared_preload_libraries_in_progress;
	for (int i = 0; i < lengthof(server_settings); i++)
	{
		struct config_generic *record =
		compat_find_setting(server_settings[i]);

		if (record != NULL)
			found_sources[i] = record->source;
	}

	DefineCustomIntVariable("snowflake.worker_id",
							"Sets the number that tells this server's ids from those of other servers.",
							"It must fit the \"worker\" field of snowflake.layout, and must differ between servers, except between a primary and its standbys.",
							&setting_worker_id, 0, 0, INT_MAX, PGC_SIGHUP,
							GUC_ALLOW_IN_PARALLEL, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.datacenter_id",
							"Sets the number of the datacenter in this server's ids.",
							"It must fit the \"datacenter\" field of snowflake.layout.",
							&setting_datacenter_id, 0, 0, INT_MAX, PGC_SIGHUP,
							GUC_ALLOW_IN_PARALLEL, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_ahead",
							"Sets how far ids can be ahead of the time that they follow.",
							"Ids are ahead of it while they are needed faster than the layout provides them. -1 means no bound.",
							&setting_max_ahead, 5000, -1, INT_MAX, PGC_SIGHUP,
							GUC_UNIT_MS | GUC_ALLOW_IN_PARALLEL, NULL,
							NULL, NULL);
	DefineCustomIntVariable("snowflake.max_set_back",
							"Sets how far the clock can be set back while ids go on.",
							"Ids go on from where they were, a little slower than the clock, until it has caught up. If it was set back further, calls wait or fail. -1 means no bound.",
							&setting_max_set_back, 86400, -1, INT_MAX,
							PGC_SIGHUP,
							GUC_UNIT_S | GUC_ALLOW_IN_PARALLEL, NULL,
							NULL, NULL);
	DefineCustomIntVariable("snowflake.max_jump",
							"Sets how far the clock can jump ahead before it is refused.",
							"Smaller jumps are followed once they have lasted for some seconds. If a larger one is right, raise this until ids have been made. -1 means no bound.",
							&setting_max_jump, 365 * 86400, -1, INT_MAX,
							PGC_SIGHUP,
							GUC_UNIT_S | GUC_ALLOW_IN_PARALLEL, NULL,
							NULL, NULL);
	DefineCustomIntVariable("snowflake.max_wait",
							"Sets how long a call waits for the clock, a lease or the mark before it fails.",
							"A call waits for the clock when its id would be further ahead of it than snowflake.max_ahead allows.",
							&setting_max_wait, 1000, 0, INT_MAX, PGC_USERSET,
							GUC_UNIT_MS | GUC_ALLOW_IN_PARALLEL, NULL,
							NULL, NULL);
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
							 PGC_SIGHUP, GUC_ALLOW_IN_PARALLEL, NULL, NULL,
							 NULL);
	DefineCustomStringVariable("snowflake.registry",
							   "Sets the connection string of the database to lease a worker id from.",
							   "The database must have the extension \"snowflake_registry\". If empty, the worker id comes from snowflake.worker_id.",
							   &setting_registry, "", settings_are_preloaded ? PGC_POSTMASTER : PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY | GUC_ALLOW_IN_PARALLEL,
							   NULL, NULL, NULL);
	settings_define_lease();

	MarkGUCPrefixReserved("snowflake");

	for (int i = 0; i < lengthof(server_settings); i++)
		settings_check(server_settings[i], found_sources[i]);
}

/*
 * What keeps ids from being made with the settings, or NULL.  Only that makes
 * the difference: nothing that reads ids fails because of settings that it
 * does not use.
 */
const SettingProblem *
SettingsProblem(void)
{
	static SettingProblem problem;

	if (found_problem.name != NULL)
		return &found_problem;
	if (SettingsRegistryIsUsed() && !settings_are_preloaded)
	{
		problem = (SettingProblem)
		{
			"snowflake.registry",
				"The worker that leases worker ids can only be started with the server.",
				"Add \"snowflake\" to \"shared_preload_libraries\" and restart the server."
		};
		return &problem;
	}
	if (settings_are_preloaded || !IsParallelWorker())
		return NULL;
	for (int i = 0; i < lengthof(server_settings); i++)
	{
		if (found_sources[i] == PGC_S_DEFAULT ||
			compat_find_setting(server_settings[i])->source != PGC_S_DEFAULT)
			continue;
		problem = (SettingProblem)
		{
			server_settings[i],
				"This parallel worker does not have the value of the server's configuration.",
				"If the configuration was reloaded while the statement ran, run it again."
		};
		return &problem;
	}
	return NULL;
}

/* Throw an error unless ids can be made with the settings. */
void
SettingsCheckUsable(void)
{
	const SettingProblem *problem = SettingsProblem();

	if (problem != NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("parameter \"%s\" cannot be used", problem->name),
				 errdetail("%s", problem->detail),
				 errhint("%s", problem->hint)));
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

/* Whether setting_layout is what the server's configuration says. */
bool
SettingsLayoutIsUsable(void)
{
	return !layout_is_unusable;
}
