/*
 * place.h
 *	  Placing jobs: on which hosts and devices a job starts.
 */
#ifndef DECIDE_PLACE_H
#define DECIDE_PLACE_H

#include "decide/order/order.h"

/* packing.c */
extern FitKey DecideFitKey(const Cycle *cycle, const Host *host,
						   const DecideRequestClass *request,
						   const DecideOffer *offer,
						   int32_t count);

/* single.c */
extern int32_t DecideSingleScan(const Cycle *cycle,
								const DecideRequestClass *request,
								const DecideOffer *offer, int32_t count,
								int32_t cache);

/* cached_host.c */
extern void DecideCachedMark(Cycle *cycle, int32_t cache, bool holds);

/* gang.c */
extern bool DecideScopeNext(const Cycle *cycle, const TypeRange *range,
							DecideTopology topology, Scope *scope);
extern Plan *DecideGangFind(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer, int32_t count);
extern bool DecideGangPrepare(Cycle *cycle);

/* largest_range.c */
extern int32_t DecideRangeLargest(Cycle *cycle,
								  const DecideRequestClass *request,
								  const DecideOffer *offer);

/* start.c */
extern bool DecidePlacePrepare(Cycle *cycle);
extern bool DecideStartParts(Cycle *cycle, const DecideRequestClass *request,
							 int32_t count, Plan *plan, DecidePart *parts);
extern PlaceOutcome DecideTryOffers(Cycle *cycle, RequestState *state,
									int32_t job,
									const DecideRequestClass *request,
									const DecideOffer *offers,
									int32_t n_offers);

/* reason.c */
extern void DecideReasonFind(Cycle *cycle, const DecideRequestClass *request,
							 DecideWait *wait);

/* Functions that only the files of this directory call. */

/* packing.c */
extern bool DecideMixPrepare(Cycle *cycle);
extern int32_t DecideShareChoose(const Cycle *cycle, const Host *host,
								 const DecideRequestClass *request);
extern int64_t DecideFitPart(const Cycle *cycle, const Host *host,
							 const DecideRequestClass *request, int32_t gpus,
							 int32_t count);

/* single.c */
extern bool DecideSinglePrepare(Cycle *cycle);
extern bool DecideSingleFind(Cycle *cycle, RequestState *state,
							 const DecideRequestClass *request,
							 const DecideOffer *offers,
							 int32_t n_offers, int32_t cache, int32_t *host);

/*
 * The number of a request's offers, from the offer first on, that compete with
 * each other.  For an elastic request it is 1, because its offers are tried
 * one after the other.
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

/* start_on.c */
extern bool DecideStartOn(Cycle *cycle, int32_t job, int32_t type,
						  int32_t gpus, const int32_t *hosts,
						  const DecidePart *parts, int32_t n_parts);

/* previous.c */
extern bool DecidePreviousPrepare(Cycle *cycle);
extern PlaceOutcome DecidePreviousTry(Cycle *cycle, int32_t job,
									  const DecideRequestClass *request,
									  const DecideOffer *offers,
									  int32_t n_offers);

#endif							/* DECIDE_PLACE_H */
