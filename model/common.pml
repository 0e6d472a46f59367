/*
 * common.pml
 *	  What the parts of the model share.
 */
#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/* Set a variable to any number from one to another. */
inline choose(variable, lowest, highest)
{
	variable = lowest;
	do
	:: variable < highest -> variable++
	:: break
	od
}
