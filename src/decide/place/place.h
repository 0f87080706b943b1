/*
 * place.h
 *	  Where a job goes on the hosts as they are.
 */
#ifndef DECIDE_PLACE_H
#define DECIDE_PLACE_H

#include "decide/order/order.h"

/* A single host for a request, and what speaks for it. */
typedef struct Choice
{
	int32_t		host;			/* -1: none can take the request */
	FitKey		key;
	uint64_t	near;			/* devices free near it, see single.c */
} Choice;

#define CHOICE_NONE	((Choice) {-1, FIT_NONE, 0})

/* packing.c */
extern FitKey DecideFitKey(const Cycle *cycle, const Host *host,
						   const DecideRequestClass *request,
						   const DecideOffer *offer,
						   int32_t count);

/* single.c */
extern Choice DecideBestScan(const Cycle *cycle,
							 const DecideRequestClass *request,
							 const DecideOffer *offer, int32_t count);
extern bool DecidePlacePrepare(Cycle *cycle);

/* gang.c */
extern bool DecideScopeNext(const Cycle *cycle, const TypeRange *range,
							DecideTopology topology, Scope *scope);
extern Plan *DecideGangFind(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer, int32_t count);
extern bool DecideGangPrepare(Cycle *cycle);
extern int32_t DecideRangeLargest(Cycle *cycle,
								  const DecideRequestClass *request,
								  const DecideOffer *offer);

/* start.c */
extern void DecideStartPart(const Cycle *cycle,
							const DecideRequestClass *request,
							int32_t host, int32_t gpus, int32_t count,
							DecidePart *part);
extern int32_t *DecideStartOrder(Cycle *cycle, const Plan *plan);
extern bool DecideStartOn(Cycle *cycle, int32_t job, int32_t type,
						  int32_t gpus, const int32_t *hosts,
						  const DecidePart *parts, int32_t n_parts);
extern PlaceOutcome DecideTryOffers(Cycle *cycle, RequestState *state,
									int32_t job,
									const DecideRequestClass *request,
									const DecideOffer *offers,
									int32_t n_offers);

/* reason.c */
extern void DecideReasonFind(Cycle *cycle, const DecideRequestClass *request,
							 DecideWait *wait);

/* Within the room. */

/* packing.c */
extern bool DecideMixPrepare(Cycle *cycle);
extern int32_t DecideShareChoose(const Cycle *cycle, const Host *host,
								 const DecideRequestClass *request);
extern int64_t DecideFitPart(const Cycle *cycle, const Host *host,
							 const DecideRequestClass *request, int32_t gpus,
							 int32_t count);

/* single.c */
extern void DecideCachedMark(Cycle *cycle, int32_t cache, bool holds);
extern int32_t DecideCachedHost(const Cycle *cycle,
								const DecideRequestClass *request,
								const DecideOffer *offers, int32_t n_offers,
								int32_t count, int32_t cache, int32_t host);
extern bool DecideSingleFind(Cycle *cycle, RequestState *state,
							 const DecideRequestClass *request,
							 const DecideOffer *offers,
							 int32_t n_offers, int32_t cache, int32_t *host);

/*
 * How many offers of a request, from this one on, compete with each other.  A
 * range of sizes is decided offer by offer.
 */
static inline int32_t
DecideSingleOffers(const Cycle *cycle, const DecideRequestClass *request,
				   int32_t first)
{
	int32_t		n = 1;

	DecideAssert(first >= 0 && first < request->n_offers);
	if (cycle->mix == NULL || request->min_gpus != request->max_gpus)
		return 1;
	while (first + n < request->n_offers && request->offers[first + n].tied)
		n++;
	return n;
}

#endif							/* DECIDE_PLACE_H */
