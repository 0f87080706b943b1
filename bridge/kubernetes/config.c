/*-------------------------------------------------------------------------
 *
 * config.c
 *		Reads the configuration file of the Kubernetes bridge.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "memory.h"
#include "settings.h"

#define ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount/"

KubeConfig	kube = {
	.database = "",
	.pool = "kubernetes",
	.api = "",
	.token_file = NULL,
	.ca_file = NULL,
	.cert_file = "",
	.key_file = "",
	.resource = "nvidia.com/gpu",
	.type_label = "nvidia.com/gpu.product",
	.memory_label = "nvidia.com/gpu.memory",
	.tier = "standard_training",
	.kueue = "",
	.enforce = "yes",
	.lease = "gpucredit/gpucredit-bridge",
	.alive_file = "",
	.identity = "",
	.wall_s = 86400,
	.lease_s = 15,
	.meter_ms = 30000,
	.retry_ms = 5000,
	.node_lost_s = 300,
	.gang_wait_s = 300,
	.held_alert_s = 900,
	.stop_grace_s = 30,
	.report_late_s = 5,
};

static const Setting settings[] = {
	{"database", &kube.database, NULL, 0, 0},
	{"pool", &kube.pool, NULL, 0, 0},
	{"api", &kube.api, NULL, 0, 0},
	{"token_file", &kube.token_file, NULL, 0, 0},
	{"ca_file", &kube.ca_file, NULL, 0, 0},
	{"cert_file", &kube.cert_file, NULL, 0, 0},
	{"key_file", &kube.key_file, NULL, 0, 0},
	{"resource", &kube.resource, NULL, 0, 0},
	{"type_label", &kube.type_label, NULL, 0, 0},
	{"memory_label", &kube.memory_label, NULL, 0, 0},
	{"tier", &kube.tier, NULL, 0, 0},
	{"kueue", &kube.kueue, NULL, 0, 0},
	{"enforce", &kube.enforce, NULL, 0, 0},
	{"lease", &kube.lease, NULL, 0, 0},
	{"alive_file", &kube.alive_file, NULL, 0, 0},
	{"identity", &kube.identity, NULL, 0, 0},
	{"wall_limit_s", NULL, &kube.wall_s, 1, 86400000},
	{"lease_s", NULL, &kube.lease_s, 2, 600},
	{"meter_ms", NULL, &kube.meter_ms, 100, 300000},
	{"retry_ms", NULL, &kube.retry_ms, 100, 600000},
	{"node_lost_s", NULL, &kube.node_lost_s, 1, 86400},
	{"gang_wait_s", NULL, &kube.gang_wait_s, 1, 86400},
	{"held_alert_s", NULL, &kube.held_alert_s, 1, 86400},
	{"stop_grace_s", NULL, &kube.stop_grace_s, 0, 3600},
	{"report_late_s", NULL, &kube.report_late_s, 1, 300},
};

#define SETTINGS	((int) (sizeof(settings) / sizeof(settings[0])))

static void in_cluster(void);
static void yes_or_no(const char *path, const char *name, const char *value);

/*
 * Reads the file. What it omits about the API server is taken from the pod's
 * service account.
 */
void
KubeConfigRead(const char *path)
{
	char		host[256] = "";

	SettingsRead(path, settings, SETTINGS, NULL);
	if (*kube.api == '\0')
		in_cluster();
	if (kube.token_file == NULL)
		kube.token_file = "";
	if (kube.ca_file == NULL)
		kube.ca_file = "";
	yes_or_no(path, "enforce", kube.enforce);
	if (*kube.kueue != '\0' && (*kube.kueue != 'v' ||
								strspn(kube.kueue, "valphbet0123456789") != strlen(kube.kueue)))
		Die("%s: kueue is a version of its API, not \"%s\"", path, kube.kueue);
	if (strchr(kube.lease, '/') == NULL)
		Die("%s: lease is NAMESPACE/NAME", path);
	if (*kube.identity == '\0')
	{
		gethostname(host, sizeof(host) - 1);
		kube.identity = Format("%s-%d", host, (int) getpid());
	}
}

/*
 * Sets the API server's URL, its certificate authority and the token from the
 * pod's environment and files.
 */
static void
in_cluster(void)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (host == NULL || port == NULL)
		Die("the configuration names no api, and this is no pod");
	kube.api = strchr(host, ':') == NULL ?
		Format("https://%s:%s", host, port) :
		Format("https://[%s]:%s", host, port);
	if (kube.token_file == NULL)
		kube.token_file = ACCOUNT_FOLDER "token";
	if (kube.ca_file == NULL)
		kube.ca_file = ACCOUNT_FOLDER "ca.crt";
}

/*
 * Returns the grace period, in seconds, of a pod that is stopped. The shortest
 * period that kubelet supports is a second.
 */
long
KubeStopGrace(void)
{
	return kube.stop_grace_s < 1 ? 1 : kube.stop_grace_s;
}

static void
yes_or_no(const char *path, const char *name, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		Die("%s: %s is yes or no, not \"%s\"", path, name, value);
}
