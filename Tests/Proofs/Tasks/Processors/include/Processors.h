/* Overrides the number of CPUs.
 *
 * libdispatch, and with it Swift's pool, creates one thread per CPU. In a program that links this library, the number
 * of CPUs comes from the environment variable PROCESSORS, if set.
 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

/* Returns the number of CPUs that the program sees. */
long processors_reported(void);

#endif
