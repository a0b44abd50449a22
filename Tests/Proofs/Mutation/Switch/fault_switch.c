/* For Swift code: Swift modules have no constructors, which run before main. */
#include "fault_switch_here.h"
