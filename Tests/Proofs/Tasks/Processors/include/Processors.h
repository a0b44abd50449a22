/* Overrides the number of CPUs.
 *
 * libdispatch, and with it Swift's pool, makes as many threads as there are CPUs. In a program that links this library
 * the number comes from the environment variable PROCESSORS, if set.
 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

/* Returns the number of CPUs that the program sees. */
long processors_reported(void);

#endif
