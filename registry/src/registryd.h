/*-------------------------------------------------------------------------
 *
 * registryd.h
 *		The registry's daemon: HTTP on one side, the database and the store
 *		of packs on the other.
 *
 * It knows no rules.  The database answers each request, and says which bytes
 * to send or to take in.  A thread serves a connection; connections to the
 * database and packs that are being written are shared.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_H
#define REGISTRYD_H

#include <jansson.h>
#include <libpq-fe.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DIGEST_SIZE 32

/* a function that ignores its result says so */
#define MUST_USE __attribute__((warn_unused_result))

/* main.c: options and words for the log */
typedef struct Options
{
	const char *database;		/* connection string */
	const char *store;			/* folder of the packs */
	const char *address;		/* what to listen on */
	uint16_t	port;
	int			connections;	/* to the database, at most */
	const char *grace;			/* how long condemned packs stay */
} Options;

extern Options options;
extern void say(const char *format,...) __attribute__((format(printf, 1, 2)));

/* chunk.c: where content is cut */
#define CHUNK_MIN	(8 * 1024)
#define CHUNK_MAX	(128 * 1024)

typedef struct Chunker
{
	uint64_t	hash;
	size_t		size;			/* of the chunk so far */
} Chunker;

extern size_t chunk_scan(Chunker *chunker, const unsigned char *data,
						 size_t size, bool *cut);

/* pack.c: the files of the store */
#define PACK_MAX	(64 * 1024 * 1024)

typedef struct Pack
{
	int64_t		number;
	int			fd;
	int32_t		size;
	struct Pack *next;
} Pack;

extern bool pack_store_open(void) MUST_USE;
extern Pack *pack_take(size_t size) MUST_USE;
extern bool pack_append(Pack *pack, const void *data, size_t size,
						int32_t *first_byte) MUST_USE;
extern bool pack_sync(Pack *pack) MUST_USE;
extern void pack_give_back(Pack *pack);
extern void pack_abandon(Pack *pack);
extern int	pack_open(int64_t number);
extern bool pack_unlink(int64_t number) MUST_USE;
extern void pack_sweep(void);

/* db.c: calls of the database */
typedef struct DbError
{
	char		sqlstate[6];
	char		message[512];
} DbError;

extern void db_error(DbError *error, const char *sqlstate,
					 const char *message);
extern PGresult * db_call(DbError *error, const char *statement, int n,
						  const char *const *values, const int *lengths,
						  const int *formats);
extern char *db_array(int n, const char *(*word) (const void *, int, char *),
					  const void *of);

/* piece.c: stored bytes, in order */
typedef struct Pieces
{
	json_t	   *list;			/* of a plan */
	size_t		at;				/* the piece that is read */
	int64_t		done;			/* of it */
	int64_t		pack;			/* that is open, or -1 */
	int			fd;
	unsigned char *body;		/* of a piece that came with the plan */
	size_t		body_size;
} Pieces;

extern void pieces_init(Pieces *pieces, json_t * list);
extern ssize_t pieces_read(Pieces *pieces, void *buffer, size_t max);
extern void pieces_end(Pieces *pieces);

/* receive.c: a body that becomes chunks */
typedef struct Receive Receive;

extern Receive *receive_begin(json_t * plan, DbError *error);
extern bool receive_data(Receive *receive, const char *data, size_t size,
						 DbError *error) MUST_USE;
extern bool receive_end(Receive *receive, char *digest, DbError *error) MUST_USE;
extern void receive_free(Receive *receive);
extern bool finish_upload(json_t * plan, const unsigned char *digest,
						  DbError *error) MUST_USE;
extern bool verify_upload(json_t * plan, DbError *error) MUST_USE;
extern bool verify_stored(json_t * plan, DbError *error) MUST_USE;
extern int64_t receive_missing(const Receive *receive);
extern int64_t receive_end_byte(const Receive *receive);

/* serve.c: requests */
extern struct MHD_Daemon *serve(void);

/* upkeep.c */
extern void upkeep_start(void);
extern bool upkeep_round(bool thorough);
extern int	upkeep_verify(void);

#endif							/* REGISTRYD_H */
