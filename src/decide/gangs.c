/*
 * gangs.c
 *	  Where gangs of one ask go best, kept up to date as hosts change.
 *
 * What gang.c finds by looking at every host is found here by tournaments, the
 * same plan to the last host.  The first gang of an ask is looked for there,
 * as many classes have one job only, and so are those of ranges, and all where a
 * domain is below several leaves.
 *
 * Three things are asked again and again.  What to fill whole next is one
 * tournament over hosts, domains or leaves, whatever the gang is to have few
 * of; those below a leaf are a stretch of it.  Which of them takes the rest
 * best is another, one for each rest that came up lately.  Which leaf or domain
 * takes a gang best as a whole is the third: the plan for each is kept until a
 * host of it changes.  So a start costs what the hosts it uses, and those that
 * changed since the last, cost in walks to the root.
 *
 * What holds the cache of a job counts as changed when the next one wants
 * another.
 */
#include "decide/gangs.h"

/*
 * Plan the gang within a stretch of pieces that has room for it.  False: out
 * of memory.
 */
static bool
gang_plan(const Look *look, Pieces *pieces, Stretch among, int64_t room,
		  Plan *plan)
{
	Gangs	   *gangs = look->gangs;
	GangScratch *gang = look->cycle->gang;
	uint64_t	stamp = ++gang->stamp;
	int32_t		wanted = look->ask.count;
	int32_t		n_used = 0;
	int32_t		n = 0;
	int32_t		piece;

	DecidePlanClear(plan);
	plan->spare = room - wanted;
	for (;;)
	{
		int32_t		leaf;

		piece = DecidePiecesNext(look, pieces, among, &n_used);
		if (pieces->room[piece] >= wanted)
			break;
		DecidePiecesFill(look, pieces, piece, pieces->room[piece], plan);
		wanted -= pieces->room[piece];
		gangs->taken[n] = piece;
		gangs->taken_room[n++] = pieces->room[piece];
		DecidePiecesRoom(pieces, piece, 0);
		plan->domains++;
		leaf = DecidePiecesLeaf(pieces, piece);
		if (pieces->piece == GANG_HOST || gang->leaf_seen[leaf] == stamp)
			continue;
		gang->leaf_seen[leaf] = stamp;
		gangs->used[n_used++] = leaf;
		plan->leaves++;
	}
	DecidePiecesTaken(look, pieces, n, wanted, true);
	piece = DecidePiecesLast(look, pieces, wanted, among, n_used);
	if (piece < 0)
		return false;
	DecidePiecesFill(look, pieces, piece, wanted, plan);
	plan->domains++;
	plan->leaves += gang->leaf_seen[DecidePiecesLeaf(pieces, piece)] != stamp;
	DecidePiecesTaken(look, pieces, n, wanted, false);
	if (pieces->piece != GANG_DOMAIN)
		DecidePlanCount(look->cycle, plan);
	return true;
}

/*
 * Plan the gang within one scope, if it has room.  False: out of memory.
 */
static bool
scope_plan(const Look *look, const Scopes *scopes, int32_t scope, Plan *plan)
{
	Gangs	   *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	Stretch		hosts = layout->pieces[scopes->piece][scope];
	int64_t		room = 0;
	int32_t		i;

	DecidePlanClear(plan);
	if (scopes->piece == GANG_LEAF)
		room = gangs->leaf_room[scope];
	else
	{
		for (i = hosts.first; i < hosts.first + hosts.n; i++)
			room += gangs->room[layout->hosts[i]];
	}
	return room < gangs->count ||
		gang_plan(look, &gangs->pieces,
				  DecideLayoutPieces(layout, gangs->pieces.piece, hosts),
				  room, plan);
}

/*
 * Plan the gang within a scope and keep what there is to say about it.  False:
 * out of memory.
 */
bool
DecideScopeKeep(const Look *look, Scopes *scopes, int32_t scope)
{
	Plan	   *trial = &look->cycle->gang->trial;

	if (!scope_plan(look, scopes, scope, trial))
		return false;
	scopes->plans[scope] = *trial;
	scopes->plans[scope].hosts = scopes->plans[scope].gpus = NULL;
	return true;
}

/*
 * What a host can take of a gang.
 */
uint8_t
DecideGangsRoom(const Look *look, const DecideOffer *offer, int32_t index)
{
	const Host *host = &look->cycle->hosts[index];
	const DecideAsk *ask = look->ask.ask;

	return (uint8_t) (!DecideFitAllowed(host, ask, offer) ? 0 :
					  DecideFitRoom(host, ask->cpu_milli, ask->memory_mib,
									look->ask.count));
}

/*
 * The position of a host of the type.
 */
static int32_t
position_of(const Look *look, int32_t host)
{
	return look->gangs->layout->position[look->cycle->hosts[host].place];
}

/*
 * List the hosts of the type that changed since the last look, and those for
 * which that was for another cache.
 */
static int32_t
changed_list(const Look *look, int32_t type, int32_t cache)
{
	Cycle	   *cycle = look->cycle;
	Gangs	   *gangs = look->gangs;
	int32_t		caches[2] = {gangs->cache, cache};
	int32_t		n = 0;
	int32_t		i;
	int32_t		c;

	for (i = cycle->latest; i >= 0 && cycle->hosts[i].changed > gangs->synced;
		 i = cycle->hosts[i].older)
	{
		if (cycle->hosts[i].type == type)
			gangs->changed[n++] = i;
	}
	gangs->synced = cycle->changes;
	gangs->cache = cache;
	for (c = 0; c < 2 && caches[0] != caches[1]; c++)
	{
		int32_t		n_holders;
		const DecideCached *holders = DecideCachedHolders(cycle, caches[c],
														  &n_holders);

		for (i = 0; i < n_holders; i++)
		{
			if (cycle->hosts[holders[i].node].type == type)
				gangs->changed[n++] = holders[i].node;
		}
	}
	return n;
}

/*
 * Plan anew within the scopes that have hosts that changed.  False: out of
 * memory.
 */
static bool
scopes_update(const Look *look, Scopes *scopes, int32_t n)
{
	const Gangs *gangs = look->gangs;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		int32_t		scope = gangs->layout->piece_of[scopes->piece]
			[position_of(look, gangs->changed[i])];

		if (scopes->seen[scope] == gangs->looks)
			continue;
		scopes->seen[scope] = gangs->looks;
		if (!DecideScopeKeep(look, scopes, scope))
			return false;
		DecideTreeReplay(&scopes->best, scope);
	}
	return true;
}

/*
 * See what changed since the last look.  False: out of memory.
 */
static bool
gangs_sync(const Look *look, const DecideOffer *offer, int32_t cache)
{
	Gangs	   *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	int32_t		n = changed_list(look, offer->type, cache);
	int32_t		i;
	int			s;

	gangs->looks++;
	for (i = 0; i < n; i++)
	{
		int32_t		host = gangs->changed[i];
		int32_t		position = position_of(look, host);
		int32_t		leaf = layout->piece_of[GANG_LEAF][position];
		int32_t		room = DecideGangsRoom(look, offer, host);
		int32_t		more = room - gangs->room[host];

		gangs->room[host] = (uint8_t) room;
		gangs->total += more;
		gangs->leaf_room[leaf] += more;
		gangs->pieces.room[layout->piece_of[gangs->pieces.piece]
						   [position]] += more;
		if (gangs->leaves.best.n > 0)
			gangs->leaves.room[leaf] += more;
	}
	for (i = 0; i < n; i++)
	{
		DecidePiecesUpdate(look, &gangs->pieces,
						   position_of(look, gangs->changed[i]));
		DecidePiecesUpdate(look, &gangs->leaves,
						   position_of(look, gangs->changed[i]));
	}
	for (s = 0; s < 2; s++)
	{
		if (gangs->scopes[s] != NULL &&
			!scopes_update(look, gangs->scopes[s], n))
			return false;
	}
	return true;
}

/*
 * Keep the best plan of what was looked at: of the scopes, and over all hosts.
 * False: out of memory.
 */
static bool
choose(const Look *look)
{
	Gangs	   *gangs = look->gangs;
	GangScratch *gang = look->cycle->gang;
	DecideTopology prefer = look->ask.ask->prefer;
	const Scopes *best_of = NULL;
	const Plan *best = NULL;
	int32_t		best_scope = -1;
	int			s;

	for (s = 0; s < 2; s++)
	{
		const Scopes *scopes = gangs->scopes[s];
		int32_t		scope;

		if (scopes == NULL)
			continue;
		scope = DecideTreeBest(&scopes->best, 0, scopes->best.n);
		if (scopes->plans[scope].n == 0 ||
			(best != NULL &&
			 DecidePlanCompare(&scopes->plans[scope], best, prefer) >= 0))
			continue;
		best_of = scopes;
		best_scope = scope;
		best = &scopes->plans[scope];
	}
	if (gangs->anywhere)
	{
		Stretch		all = {0, gangs->over_all->best.n};

		if (!gang_plan(look, gangs->over_all, all, gangs->total, &gang->best))
			return false;
		if (best == NULL || DecidePlanCompare(&gang->best, best, prefer) < 0)
			return true;
	}
	DecidePlanClear(&gang->best);
	return best == NULL ||
		scope_plan(look, best_of, best_scope, &gang->best);
}

/*
 * Find hosts for a gang of a job that wants to find this cache, whose hosts are
 * marked: *plan, valid until the next call, or NULL.  False: out of memory.
 */
bool
DecideGangsFind(Cycle *cycle, Gangs *gangs, const DecideAsk *ask,
				const DecideOffer *offer, int32_t cache, Plan **plan)
{
	Look		look = {cycle, gangs, {ask, gangs->count}};
	uint8_t    *room = cycle->gang->room;
	bool		found = true;

	*plan = NULL;
	if (gangs->layout == NULL)
		return true;
	if (gangs->layout->crossed)
	{
		*plan = DecideGangFind(cycle, ask, offer, gangs->count);
		return true;
	}
	cycle->gang->room = gangs->room;
	found = gangs_sync(&look, offer, cache);
	if (found && gangs->total >= gangs->count)
	{
		found = choose(&look);
		if (found && cycle->gang->best.n > 0)
			*plan = &cycle->gang->best;
	}
	cycle->gang->room = room;
	DecidePoll(cycle->arena);
	return found;
}
