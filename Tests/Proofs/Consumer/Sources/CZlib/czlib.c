#include "czlib.h"

int czlib_of_the_service(void) { return 1; }
