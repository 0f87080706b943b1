/*-------------------------------------------------------------------------
 *
 * merkle.c
 *		The tree over a batch's leaves, as in RFC 6962.
 *
 * The digest of a leaf is SHA-256(0x00, its text), that of a node is
 * SHA-256(0x01, left, right).  The last node of a level with an odd number of
 * nodes is copied to the level above.  The first byte makes sure that a node
 * is never taken for a leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "seal/seal.h"

static Digest *all_leaves(const Leaves *leaves, int n_lists, int *n);
static int	level_up(Digest *level, int n);
static Digest node(const Digest *left, const Digest *right);

/*
 * Returns the root over several lists of leaves, one list after the other.
 * Without leaves it is the digest of an empty text.
 */
Digest
MerkleRoot(const Leaves *leaves, int n_lists)
{
	int			n;
	Digest	   *level = all_leaves(leaves, n_lists, &n);
	Digest		root = {{0}};

	if (n == 0)
	{
		StringInfoData nothing;

		initStringInfo(&nothing);
		DigestOf(&nothing, root.bytes);
		return root;
	}
	while (n > 1)
		n = level_up(level, n);
	root = level[0];
	pfree(level);
	return root;
}

/*
 * Stores the siblings that are needed to compute the root from the leaf at an
 * index, from the lowest level up, and returns their number.  A last node
 * without a neighbour has no sibling.
 */
int
MerklePath(const Leaves *leaves, int n_lists, int index, Digest *path)
{
	int			n;
	Digest	   *level = all_leaves(leaves, n_lists, &n);
	int			length = 0;

	while (n > 1)
	{
		if ((index ^ 1) < n)
			path[length++] = level[index ^ 1];
		index /= 2;
		n = level_up(level, n);
	}
	pfree(level);
	return length;
}

/* Returns the lowest level: the digests of the leaves of all lists. */
static Digest *
all_leaves(const Leaves *leaves, int n_lists, int *n)
{
	Digest	   *all;

	*n = 0;
	for (int i = 0; i < n_lists; i++)
		*n += leaves[i].n;
	all = palloc(sizeof(Digest) * Max(*n, 1));
	*n = 0;
	for (int i = 0; i < n_lists; i++)
	{
		memcpy(all + *n, leaves[i].digests, sizeof(Digest) * leaves[i].n);
		*n += leaves[i].n;
	}
	return all;
}

/* Replaces a level of the tree by the level above, and returns its size. */
static int
level_up(Digest *level, int n)
{
	for (int i = 0; i + 1 < n; i += 2)
		level[i / 2] = node(&level[i], &level[i + 1]);
	if (n % 2 == 1)
		level[n / 2] = level[n - 1];
	return (n + 1) / 2;
}

static Digest
node(const Digest *left, const Digest *right)
{
	char		bytes[1 + 2 * DIGEST_SIZE];
	StringInfoData data = {bytes, sizeof(bytes), sizeof(bytes), 0};
	Digest		digest = {{0}};

	bytes[0] = 1;
	memcpy(bytes + 1, left->bytes, DIGEST_SIZE);
	memcpy(bytes + 1 + DIGEST_SIZE, right->bytes, DIGEST_SIZE);
	DigestOf(&data, digest.bytes);
	return digest;
}
