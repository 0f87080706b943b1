/*-------------------------------------------------------------------------
 *
 * main.c
 *		gpucredit-agent: runs the jobs that the database places on a node.
 *
 *     gpucredit-agent CONFIG
 *     gpucredit-agent poke CONFIG                   (poke.c)
 *     gpucredit-agent nvml CONFIG [INDEX...]        (nvml.c)
 *     gpucredit-agent spot CONFIG                   (spot.c)
 *     gpucredit-agent topology CONFIG               (topology_read.c)
 *     gpucredit-agent reset CONFIG UUID             (health.c)
 *     gpucredit-agent foreign CONFIG WORD TOKEN ... (foreign.c)
 *     gpucredit-agent forget NODE [CONFIG]          (forget.c)
 *     gpucredit-agent --version
 *
 * A single loop waits for the database, for what keepers write, for
 * notifications and datagrams (each means "send a heartbeat now"), and for
 * timeouts. Each turn checks every attempt, then makes the most urgent call if
 * none is in flight: the heartbeat when it is due, then settlements, then
 * metering.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "attempts.h"
#include "calls.h"
#include "checkpoints.h"
#include "clock.h"
#include "config.h"
#include "contain.h"
#include "db.h"
#include "device_watch.h"
#include "devices.h"
#include "energy.h"
#include "file.h"
#include "foreign.h"
#include "forget.h"
#include "health.h"
#include "log_folder.h"
#include "launch.h"
#include "log.h"
#include "memory.h"
#include "metrics.h"
#include "nvml.h"
#include "nvml_watch.h"
#include "orders.h"
#include "poke.h"
#include "probe.h"
#include "pull_image.h"
#include "relay_run.h"
#include "sessions.h"
#include "spot.h"
#include "spot_watch.h"
#include "topology_read.h"
#include "topology_watch.h"
#include "trash.h"

#define LOOK_MS		1000		/* interval of checking all attempts */
#define DEFAULT_CONFIG	"/etc/gpucredit/agent.conf"
#define POKE_MS		100			/* shortest time between two heartbeats that
								 * datagrams cause */

static int	signals;
static int	pokes = -1;
static bool poked;
static bool ends;

static void run_other(int argc, char **argv);
static void open_files(void);
static void prove_cgroup(void);
static void open_signals(void);
static void open_pokes(void);
static void turn(void);
static void handle_signals(void);
static void drain(int fd);
static void read_pokes(void);
static void obey_pokes(void);

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
	{
		puts("gpucredit-agent " AGENT_VERSION);
		return 0;
	}
	if (argc > 2)
		run_other(argc, argv);
	if (argc != 2 || argv[1][0] == '-')
		Die("usage: gpucredit-agent CONFIG, or [poke|nvml|spot|topology|reset|foreign] CONFIG"
			" ..., or forget NODE [CONFIG], or --version");
	ConfigRead(argv[1], true);
	open_files();
	DbUse(config.database, strcmp(config.listen, "yes") == 0 ?
		  "LISTEN gpucredit_node" : NULL, config.node);
	signal(SIGPIPE, SIG_IGN);
	AgentOpen();
	AgentReadBootId();
	prove_cgroup();
	open_signals();
	open_pokes();
	HealthStart();
	DevicesStart(argv[1]);
	SpotStart(argv[1]);
	TopologyStart(argv[1]);
	AttemptsLoad();
	EnergyStart();
	AttemptsPullAgain();
	LogLine("event=agent_start node=%s devices=%d", config.node, DeviceCount());
	while (!ends)
		turn();
	MetricsEnd();
	LogLine("event=agent_end node=%s", config.node);
	return 0;
}

/*
 * Runs another command of this program, if the arguments name one. Returns if
 * the program is to run as the agent itself.
 */
static void
run_other(int argc, char **argv)
{
	bool		poke = argc == 3 && strcmp(argv[1], "poke") == 0;
	bool		asks = strcmp(argv[1], "nvml") == 0;
	bool		spot = argc == 3 && strcmp(argv[1], "spot") == 0;
	bool		topology = argc == 3 && strcmp(argv[1], "topology") == 0;
	bool		reset = argc == 4 && strcmp(argv[1], "reset") == 0;
	bool		foreign = argc > 4 && strcmp(argv[1], "foreign") == 0;

	if (strcmp(argv[1], "relay") == 0 && argc > 2)
		RelayRun(argc - 2, argv + 2);
	if (strcmp(argv[1], "session") == 0)
		SessionRun(argc - 2, argv + 2);
	if (strcmp(argv[1], "forget") == 0 && argc <= 4)
	{
		ConfigRead(argc == 4 ? argv[3] : DEFAULT_CONFIG, true);
		ForgetNode(argv[2]);
	}
	if (!poke && !asks && !spot && !topology && !reset && !foreign)
		return;
	ConfigRead(argv[2], false);
	if (poke)
		PokeRun();
	if (spot)
		SpotRun();
	if (topology)
		TopologyReadRun();
	if (foreign)
		ForeignRun(argc - 3, argv + 3);
	if (reset)
		HealthReset(argv[3]);
	NvmlRun(argc - 3, argv + 3);
}

/*
 * Closes the files that the parent process left open, which jobs would
 * inherit, and raises the limit of open files to the machine's: a node may
 * have thousands of attempts.
 */
static void
open_files(void)
{
	struct rlimit limit;

	CloseInherited();
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		LaunchFiles = limit.rlim_cur;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			LogLine("event=few_descriptors most=%llu error=\"%s\"",
					(unsigned long long) LaunchFiles, strerror(errno));
	}
}

/*
 * Whether the parent of this folder is in a file system of cgroups, version 2.
 */
static bool
is_cgroup2(const char *path)
{
	char	   *above = Dup(path);
	struct statfs fs;
	bool		is;

	*(strrchr(above, '/') == NULL ? above : strrchr(above, '/')) = '\0';
	is = statfs(above, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
	free(above);
	return is;
}

/*
 * Determines how jobs are contained. Without a cgroup, a process that hides
 * may survive its job, and a job's memory has no limit; each start logs that
 * and reports it to the database.
 */
static void
prove_cgroup(void)
{
	if (*config.cgroup == '\0')
	{
		LogLine("event=no_cgroup node=%s detail=\"set cgroup: jobs have no limits"
				" of memory and processes, and one that hides may outlive its bill\"",
				config.node);
		return;
	}
	if (!is_cgroup2(config.cgroup))
		Die("the cgroup %s is not below a cgroup of version 2", config.cgroup);
	containment = "cgroup";
	if (!ContainMake(config.cgroup) || !ContainMake(LaunchKeepers()))
		Die("could not make the cgroup %s: %s", config.cgroup,
			strerror(errno));
	if (!ContainDelegate(config.cgroup))
	{
		containment = "cgroup_no_memory";
		LogLine("event=no_memory_limit node=%s cgroup=%s", config.node,
				config.cgroup);
	}
}

static void
open_signals(void)
{
	sigset_t	set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		Die("could not watch signals: %s", strerror(errno));
}

/*
 * Opens the socket for datagrams.
 */
static void
open_pokes(void)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;
	char	   *host = Dup(config.poke);
	char	   *port = strrchr(host, ':');

	if (*host != '\0')
	{
		if (port == NULL)
			Die("poke is HOST:PORT, not \"%s\"", config.poke);
		*port++ = '\0';
		if (*host == '[' && port[-2] == ']')
			port[-2] = '\0';
		if (getaddrinfo(*host == '[' ? host + 1 : host, port, &hints, &found) != 0)
			Die("poke: cannot find \"%s\"", config.poke);
		pokes = socket(found->ai_family, SOCK_DGRAM | SOCK_NONBLOCK |
					   SOCK_CLOEXEC, 0);
		if (pokes < 0 || bind(pokes, found->ai_addr, found->ai_addrlen) != 0)
			Die("could not listen at %s: %s", config.poke, strerror(errno));
		freeaddrinfo(found);
	}
	free(host);
}

/*
 * Waits for an event, then handles it.
 */
static void
turn(void)
{
	struct pollfd fds[7] = {
		{signals, POLLIN, 0}, {watches, POLLIN, 0}, {pokes, POLLIN, 0},
		{NvmlFd(), POLLIN, 0}, {SpotFd(), POLLIN, 0},
		{TopologyFd(), POLLIN, 0},
	};
	int			db = DbWaitMs();
	int			calls = CallsWaitMs();
	int			wait = db < calls ? db : calls;

	if (poked && wait > POKE_MS)
		wait = POKE_MS;
	fds[6].fd = DbFd(&fds[6].events);
	if (poll(fds, 7, wait < LOOK_MS ? wait : LOOK_MS) < 0 && errno != EINTR)
		Die("could not wait: %s", strerror(errno));
	handle_signals();
	drain(watches);
	read_pokes();
	DevicesCheck();
	SpotCheck();
	TopologyCheck();
	AttemptsAdvance(ForeignAdvance);
	PullExpire();
	AttemptsForget();
	TrashCollect();
	CheckpointsDigest();
	DbWork();
	if (HealthCheck())
		BeatSoon();
	EnergySave();
	MetricsWrite();
	poked |= DbNotified();
	obey_pokes();
	if (DbIdle())
		CallsMake();
}

/*
 * Handles signals: a child has ended, or the agent must end.
 */
static void
handle_signals(void)
{
	struct signalfd_siginfo info;
	int			status;
	pid_t		pid;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
	{
		if (info.ssi_signo != SIGCHLD)
			ends = true;
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
	{
		if (!CheckpointChildGone(pid, status) && !NvmlChildGone(pid) &&
			!TrashChildGone(pid) && !SpotChildGone(pid) &&
			!TopologyChildGone(pid) && !ProbeChildGone(pid, status) &&
			!SessionChildGone(pid) &&
			!LogFolderChildGone(pid, status) && !PullChildGone(pid, status, AttemptPulled))
			AttemptChildGone(pid);
	}
}

static void
drain(int fd)
{
	char		waste[4096];

	while (read(fd, waste, sizeof(waste)) > 0)
		;
}

/*
 * Reads all datagrams. Their content does not matter.
 */
static void
read_pokes(void)
{
	char		waste[64];

	for (int i = 0; i < 1000 && pokes >= 0 &&
		 recv(pokes, waste, sizeof(waste), 0) >= 0; i++)
		poked = true;
}

/*
 * Makes a heartbeat due after a datagram or a notification. At most ten a
 * second are obeyed; a lost one costs the delay of one interval.
 */
static void
obey_pokes(void)
{
	static int64_t obeyed_ns;

	if (!poked || MonotonicNs() - obeyed_ns < POKE_MS * NS_PER_MS)
		return;
	obeyed_ns = MonotonicNs();
	poked = false;
	BeatSoon();
}
