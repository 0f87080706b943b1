/*-------------------------------------------------------------------------
 *
 * network.c
 *		A job's own network namespace.
 *
 * The keeper creates the namespace and stays in it, so every process that it
 * starts for the job is in it, with bubblewrap, podman or neither. The job has
 * no capability over the namespace, so it cannot change what the namespace
 * contains:
 *
 *  - the loopback interface, which also has the node's own addresses. A program
 *    that resolves its host's name connects to itself, and never to the node.
 *  - with "outbound", the interface tap0, whose packets slirp4netns sends on as
 *    connections of the node, and routes of the type "unreachable" to every
 *    address that the job may not reach. The longest prefix decides, so an
 *    allowed address may be part of a denied network.
 *
 * slirp4netns offers no IPv6, and does not connect to the node's loopback
 * interface. It runs among the keepers, outside the job's cgroup, and the
 * keeper starts another one if it ends.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "network.h"
#include "network_address.h"

#define GATEWAY			"10.0.2.2"	/* address of slirp4netns in the namespace */
#define START_MS		10000	/* time limit for its start */
#define MEND_MS			2000	/* time limit for a restart, during which the
								 * job and its fence wait */
#define MEND_PAUSE		NS_PER_S
#define MOST_ADDRESSES	1024

/* A request to the kernel's routing (rtnetlink). */
typedef struct NetlinkRequest
{
	struct nlmsghdr head;
	union
	{
		struct ifaddrmsg address;
		struct rtmsg route;
	};
	char		attributes[128];
} NetlinkRequest;

/*
 * Networks that no job reaches through slirp4netns unless the node's
 * configuration allows it: private networks (nodes, databases, other jobs),
 * link-local addresses (metadata of clouds), and 168.63.129.16, where Azure
 * has another metadata service.
 */
static const char *const private_networks[] = {
	"10.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "169.254.0.0/16",
	"172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4",
	"240.0.0.0/4", NULL
};

/*
 * The denied addresses, resolved from the names in the node's configuration.
 */
static Network denied[MOST_ADDRESSES];
static int	ndenied;

/* The networks of the node's own interfaces, in which other nodes may be. */
static Network attached[MOST_ADDRESSES];
static int	nattached;

static const char *resolve_denied(const Start *start);
static bool raise_loopback(const Network *own, int n);
static int	own_addresses(Network *own, int most);
static void add_attached(const struct ifaddrs *of);
static const char *connect_outside(Keeper *keeper, int limit_ms);
static const char *cut_off(Keeper *keeper, const char *why);
static void run_slirp(const Keeper *keeper, pid_t owner, int ready, int end)
			__attribute__((noreturn));
static bool add_routes(const Start *start);
static bool add_route(int fd, const Network *network, bool unreachable);
static bool add_address(int fd, const Network *own);
static void put_attribute(NetlinkRequest *request, int type, const void *data,
						  size_t len);
static bool ask_kernel(int fd, NetlinkRequest *request);

/*
 * Creates the namespace that "start" describes. Returns NULL, or the reason of
 * a failure.
 */
const char *
NetworkMake(Keeper *keeper)
{
	const Start *start = &keeper->start;
	Network		own[MOST_ADDRESSES];
	const char *why;
	int			n;

	keeper->outside = keeper->router_end = -1;
	if (start->network == NULL)
		return NULL;
	why = start->slirp == NULL ? NULL : resolve_denied(start);
	if (why != NULL)
		return why;
	n = own_addresses(own, MOST_ADDRESSES);
	keeper->outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (n < 0 || keeper->outside < 0 || unshare(CLONE_NEWNET) != 0 ||
		!raise_loopback(own, n))
		return "it has no network namespace";
	return start->slirp == NULL ? NULL : connect_outside(keeper, START_MS);
}

/*
 * Connects the namespace again if slirp4netns has ended. Open connections are
 * lost; new ones work.
 */
void
NetworkMend(Keeper *keeper)
{
	int64_t		now = MonotonicNs();
	const char *why;

	if (keeper->start.slirp == NULL || keeper->outside < 0 ||
		keeper->router != 0 || now < keeper->mend_ns)
		return;
	keeper->mend_ns = now + MEND_PAUSE;
	why = connect_outside(keeper, MEND_MS);
	LogLine("event=network_mended attempt=%s error=\"%s\"", keeper->start.tag,
			why == NULL ? "" : why);
}

/*
 * Ends slirp4netns, once no process of the job is left.
 */
void
NetworkEnd(Keeper *keeper)
{
	if (keeper->router_end >= 0)
		close(keeper->router_end);
	if (keeper->router > 0)
		(void) kill(keeper->router, SIGKILL);
	keeper->router_end = -1;
	keeper->router = 0;
}

/*
 * Mounts the configuration for slirp4netns's resolver in place of the node's,
 * in a mount namespace of its own. Runs in the child, before it gives up root.
 */
bool
NetworkNames(const Start *start)
{
	char	   *file = start->resolver == NULL ? NULL :
		realpath("/etc/resolv.conf", NULL);
	bool		good = start->resolver == NULL || file == NULL ||
		(unshare(CLONE_NEWNS) == 0 &&
		 mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
		 mount(start->resolver, file, NULL, MS_BIND, NULL) == 0);

	free(file);
	return good;
}

/*
 * Resolves the addresses that the node's configuration denies, while the
 * keeper is still in the node's network. If a name has no address, it cannot
 * be denied, so the job is not started.
 */
static const char *
resolve_denied(const Start *start)
{
	ndenied = 0;
	for (int i = 0; i < start->ndenied; i++)
	{
		struct addrinfo hints = {.ai_family = AF_INET,
			.ai_socktype = SOCK_STREAM};
		struct addrinfo *found;

		if (ndenied < MOST_ADDRESSES &&
			NetworkParse(start->denied[i], &denied[ndenied]))
		{
			ndenied++;
			continue;
		}
		if (strchr(start->denied[i], ':') != NULL)
			continue;			/* slirp4netns offers no IPv6, so there is
								 * nothing to deny */
		if (getaddrinfo(start->denied[i], NULL, &hints, &found) != 0)
			return "a name that it must not reach has no address";
		for (struct addrinfo *a = found; a != NULL && ndenied < MOST_ADDRESSES;
			 a = a->ai_next)
		{
			Network    *network = &denied[ndenied++];

			*network = (Network)
			{
				.family = AF_INET, .bits = 32
			};
			memcpy(network->address,
				   &((struct sockaddr_in *) a->ai_addr)->sin_addr, 4);
		}
		freeaddrinfo(found);
		if (ndenied == MOST_ADDRESSES)
			return "too many addresses are denied";
	}
	return NULL;
}

/*
 * Determines the addresses of the machine that other machines can have routes
 * to. Those may be addresses of its loopback interface, too. Returns their
 * number, or -1 on failure or with too many of them.
 */
static int
own_addresses(Network *own, int most)
{
	struct ifaddrs *all;
	int			n = 0;

	if (getifaddrs(&all) != 0)
		return -1;
	for (struct ifaddrs *a = all; a != NULL && n < most; a = a->ifa_next)
	{
		int			family = a->ifa_addr == NULL ? AF_UNSPEC :
			a->ifa_addr->sa_family;
		const unsigned char *four = (const unsigned char *)
			&((struct sockaddr_in *) a->ifa_addr)->sin_addr;
		const struct in6_addr *six =
		&((struct sockaddr_in6 *) a->ifa_addr)->sin6_addr;

		if ((family != AF_INET && family != AF_INET6) ||
			(family == AF_INET && four[0] == 127) ||
			(family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(six) ||
									IN6_IS_ADDR_LINKLOCAL(six))))
			continue;
		own[n] = (Network)
		{
			.family = family, .bits = family == AF_INET ? 32 : 128
		};
		if (family == AF_INET)
		{
			memcpy(own[n].address, four, 4);
			add_attached(a);
		}
		else
			memcpy(own[n].address, six, 16);
		n++;
	}
	freeifaddrs(all);
	/* with more addresses, some would be left out: then no job starts */
	return n == most ? -1 : n;
}

/*
 * Records the network of an interface's address.
 */
static void
add_attached(const struct ifaddrs *of)
{
	uint32_t	mask = of->ifa_netmask == NULL ? ~0u :
		((struct sockaddr_in *) of->ifa_netmask)->sin_addr.s_addr;
	uint32_t	address = ((struct sockaddr_in *) of->ifa_addr)->sin_addr.s_addr &
		mask;

	if (mask == 0 || nattached == MOST_ADDRESSES)
		return;
	attached[nattached] = (Network)
	{
		.family = AF_INET, .bits = __builtin_popcount(mask)
	};
	memcpy(attached[nattached++].address, &address, 4);
}

/*
 * Brings up the loopback interface, with the node's addresses. A machine
 * without IPv6 accepts none of that family.
 */
static bool
raise_loopback(const Network *own, int n)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int			control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int			fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
							NETLINK_ROUTE);
	bool		good = control >= 0 && fd >= 0 &&
		ioctl(control, SIOCSIFFLAGS, &lo) == 0;

	for (int i = 0; i < n && good; i++)
		good = add_address(fd, &own[i]) || own[i].family == AF_INET6;
	if (control >= 0)
		close(control);
	if (fd >= 0)
		close(fd);
	return good;
}

/*
 * Starts slirp4netns in the node's network, and waits until it has created
 * tap0. Returns NULL, or the reason of a failure.
 */
static const char *
connect_outside(Keeper *keeper, int limit_ms)
{
	const pid_t owner = getpid();
	struct pollfd ready;
	int			readies[2];
	int			ends[2];
	char		byte;
	bool		came;

	if (pipe2(readies, O_CLOEXEC) != 0 || pipe2(ends, O_CLOEXEC) != 0)
		return "out of descriptors";
	keeper->router = fork();
	if (keeper->router == 0)
		run_slirp(keeper, owner, readies[1], ends[0]);
	if (keeper->router < 0)
		keeper->router = 0;		/* NetworkMend() tries again */
	close(readies[1]);
	close(ends[0]);
	if (keeper->router_end >= 0)
		close(keeper->router_end);
	keeper->router_end = ends[1];
	keeper->contain.but[1] = keeper->router;
	ready = (struct pollfd)
	{
		readies[0], POLLIN, 0
	};
	came = keeper->router > 0 && poll(&ready, 1, limit_ms) == 1 &&
		read(readies[0], &byte, 1) == 1;
	close(readies[0]);
	if (!came)
		return cut_off(keeper, "slirp4netns does not run");
	if (!add_routes(&keeper->start))
		return cut_off(keeper, "it cannot be closed off");
	return NULL;
}

/*
 * Ends slirp4netns after a failure, so that nothing connects the namespace.
 * Returns the reason of the failure.
 */
static const char *
cut_off(Keeper *keeper, const char *why)
{
	if (keeper->router > 0)
		(void) kill(keeper->router, SIGKILL);
	return why;
}

/*
 * Runs in the child: executes slirp4netns, which itself enters the namespace of
 * the keeper, whose process id is "owner". (If the keeper has died, getppid()
 * is the process 1, in the node's namespace.) It writes a line to descriptor 3,
 * and ends when the other end of descriptor 4 is closed. Its sandbox unmounts
 * all mounts that it sees. If these were shared, the node's mounts would be
 * affected; therefore it first gets its own mounts, which are not shared.
 */
static void
run_slirp(const Keeper *keeper, pid_t owner, int ready, int end)
{
	char		path[64];
	char	   *argv[] = {keeper->start.slirp, "--configure", "--mtu=65520",
		"--disable-host-loopback", "--enable-sandbox", "--enable-seccomp",
	"--ready-fd=3", "--exit-fd=4", "--netns-type=path", path, "tap0", NULL};
	char	   *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	int			null = open("/dev/null", O_RDWR);
	sigset_t	none;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int) owner);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setns(keeper->outside, CLONE_NEWNET) == 0 &&
		unshare(CLONE_NEWNS) == 0 &&
		mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
		(ready = fcntl(ready, F_DUPFD, 10)) >= 0 &&
		(end = fcntl(end, F_DUPFD, 10)) >= 0 &&
		dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
		dup2(null, STDERR_FILENO) >= 0 && dup2(ready, 3) >= 0 &&
		dup2(end, 4) >= 0)
	{
		(void) close_range(5, ~0U, 0);
		execvpe(argv[0], argv, env);
	}
	_exit(127);
}

/*
 * Adds routes: first to addresses that are denied by name, then to those that
 * are allowed, then to the networks of the node's interfaces and the private
 * networks. Of two routes to the same network, the first one is kept.
 */
static bool
add_routes(const Start *start)
{
	int			fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
							NETLINK_ROUTE);
	bool		good = fd >= 0;
	Network		network;

	for (int i = 0; i < ndenied && good; i++)
		good = add_route(fd, &denied[i], true);
	for (int i = 0; i < start->nallowed && good; i++)
		good = NetworkParse(start->allowed[i], &network) &&
			add_route(fd, &network, false);
	for (int i = 0; i < nattached && good; i++)
		good = add_route(fd, &attached[i], true);
	for (int i = 0; private_networks[i] != NULL && good; i++)
		good = NetworkParse(private_networks[i], &network) &&
			add_route(fd, &network, true);
	if (fd >= 0)
		close(fd);
	return good;
}

/*
 * Adds a route to a network: through the gateway that slirp4netns has, or one
 * that makes the network unreachable.  Returns false if the kernel refuses it.
 */
static bool
add_route(int fd, const Network *network, bool unreachable)
{
	NetlinkRequest request = {
		.head = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			.nlmsg_type = RTM_NEWROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
		},
		.route = {
			.rtm_family = network->family,
			.rtm_dst_len = network->bits,
			.rtm_table = RT_TABLE_MAIN,
			.rtm_protocol = RTPROT_STATIC,
			.rtm_scope = RT_SCOPE_UNIVERSE,
			.rtm_type = unreachable ? RTN_UNREACHABLE : RTN_UNICAST
		},
	};
	struct in_addr gateway;

	put_attribute(&request, RTA_DST, network->address, 4);
	if (!unreachable)
	{
		(void) inet_pton(AF_INET, GATEWAY, &gateway);
		put_attribute(&request, RTA_GATEWAY, &gateway, sizeof(gateway));
	}
	return ask_kernel(fd, &request);
}

/*
 * Adds an address to the loopback interface, whose index is 1 in every
 * namespace.
 */
static bool
add_address(int fd, const Network *own)
{
	size_t		len = own->family == AF_INET ? 4 : 16;
	NetlinkRequest request = {
		.head = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
			.nlmsg_type = RTM_NEWADDR,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
		},
		.address = {
			.ifa_family = own->family,
			.ifa_prefixlen = own->bits,
			.ifa_index = 1
		},
	};

	put_attribute(&request, IFA_LOCAL, own->address, len);
	put_attribute(&request, IFA_ADDRESS, own->address, len);
	return ask_kernel(fd, &request);
}

static void
put_attribute(NetlinkRequest *request, int type, const void *data, size_t len)
{
	struct rtattr *attribute = (struct rtattr *)
		((char *) request + NLMSG_ALIGN(request->head.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(attribute), data, len);
	request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) +
		RTA_ALIGN(attribute->rta_len);
}

/*
 * Sends a request to the kernel. An object that exists already counts as
 * success. Returns false with errno set on failure.
 */
static bool
ask_kernel(int fd, NetlinkRequest *request)
{
	struct
	{
		struct nlmsghdr head;
		struct nlmsgerr error;
		char		rest[512];
	}			answer;
	ssize_t		n;

	if (send(fd, request, request->head.nlmsg_len, 0) < 0)
		return false;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t) NLMSG_LENGTH(sizeof(struct nlmsgerr)) ||
		answer.head.nlmsg_type != NLMSG_ERROR)
		return false;
	errno = -answer.error.error;
	return errno == 0 || errno == EEXIST;
}
