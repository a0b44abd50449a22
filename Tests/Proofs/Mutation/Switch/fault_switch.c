/* For code in Swift, whose modules have nothing of their own that is run first. */
#include "fault_switch_here.h"
