/* As many processors as the environment says, for who asks how many threads to make.
 *
 * libdispatch, and with it Swift's pool, makes as many threads as there are processors. In a program that is linked
 * with this it takes the number from the variable PROCESSORS, where that is set.
 */
#ifndef PROCESSORS_H
#define PROCESSORS_H

/* The number that is told. */
long processors_told(void);

#endif
