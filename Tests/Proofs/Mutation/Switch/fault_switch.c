/* Defines the switch for Swift modules, which have no constructors that run before main. */
#include "fault_switch_here.h"
