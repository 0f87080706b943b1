/*-------------------------------------------------------------------------
 *
 * delivery.c
 *		How many bytes of an answer have reached the client.
 *
 * The library asks for a block of the body at a time, and the kernel keeps up
 * to some MB of what the library wrote. If a client breaks off, it has received
 * neither, so a client that closes many connections would be billed for more
 * bytes than went over the network. Therefore an answer that was written in
 * full counts in full, and of one that was not only those bytes count whose
 * receipt the client's kernel acknowledged.
 *-------------------------------------------------------------------------
 */
#include "delivery.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * Reads how many bytes of a TCP connection the other side acknowledged, and how
 * many were written to it, since it began. Returns false if the kernel does not
 * know it.
 */
static bool
tcp_progress(int socket, int64_t *acknowledged, int64_t *written)
{
	struct tcp_info info;
	socklen_t	size = sizeof(info);
	int			queued;

	memset(&info, 0, sizeof(info));
	if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
		size < offsetof(struct tcp_info, tcpi_bytes_acked) +
		sizeof(info.tcpi_bytes_acked) ||
		ioctl(socket, SIOCOUTQ, &queued) != 0)
		return false;
	*acknowledged = (int64_t) info.tcpi_bytes_acked;
	*written = *acknowledged + queued;
	return true;
}

/* Called when the headers of an answer were written, and nothing of its body. */
void
delivery_begin(Delivery *delivery, int socket)
{
	int64_t		acknowledged;

	delivery->socket = socket;
	if (!tcp_progress(socket, &acknowledged, &delivery->written))
		delivery->socket = -1;
}

/*
 * Returns how many bytes of a body count as sent. The library has asked for
 * "handed" of its "length" bytes, and the socket is still open.
 */
int64_t
delivery_end(const Delivery *delivery, int64_t handed, int64_t length)
{
	int64_t		acknowledged;
	int64_t		written;

	if (delivery->socket < 0 ||
		!tcp_progress(delivery->socket, &acknowledged, &written) ||
		written - delivery->written >= length)
		return handed;
	acknowledged -= delivery->written;
	if (acknowledged < 0)
		return 0;
	return acknowledged < handed ? acknowledged : handed;
}
