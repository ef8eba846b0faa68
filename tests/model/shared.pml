/* Included by the models: faults, which may cease, and properties. */
#ifdef CALM
bit is_calm;		/* from now on: no faults, no clocks but the listeners' own */
#define IS_STORMY	(!is_calm)
#else
#define IS_STORMY	true
#endif

inline expect(property, condition)
{
	property = (condition);
	assert(property);
}
