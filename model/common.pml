/*
 * common.pml
 *	  Definitions that the parts of the model share.
 */
#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/* Set a variable to any number in a range. */
inline choose(variable, lowest, highest)
{
	variable = lowest;
	do
	:: variable < highest -> variable++
	:: break
	od
}

/* One of the ids that were issued, any one, see "run".  0: none yet; no id is 0. */
byte kept;

inline keep(id)
{
	if
	:: kept == 0 -> kept = id
	:: true
	fi
}

inline issue(id)
{
	assert(kept != id);
	keep(id)
}
