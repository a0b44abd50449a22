/* What the generators of call chains share. */
#ifndef GENERATE_H
#define GENERATE_H

/* A random number from 0 to BOUND - 1. */
int below(int bound);

/* One of the COUNT texts in CHOICES. */
const char *one_of(const char *const *choices, int count);

/* True PERCENT times of a hundred. */
int happens(int percent);

enum { PARAMETERS_MAX = 9, OUTERMOST_PARAMETERS = 8 };

/* Where in which chain a function is, and what it calls. */
struct level {
  int chain, level;
  int parameters;        /* how many it has: p0 and so on */
  char callee[64];       /* what it calls, */
  int callee_parameters; /* and how many parameters that has */
};

/* A way to call: what stands before the function that does, and in it. "%1$d" and "%2$d" stand for the chain's and the
 * level's number, "CALL" for the call, which may be where the function's parameters are not known, "SELF" for a call of
 * the function itself. */
struct shape_text {
  const char *before, *body;
};

/* Prints a call of CALLEE, which is the callee of LEVEL or a pointer to it. */
void print_call(const struct level *level, const char *callee);

/* Prints TEXT, of a shape_text, filled in for LEVEL. */
void print_filled(const struct level *level, const char *text);

/* Ways through code without unwind information (sites.h); "" for none. */
const char *a_bare_way(void);

/* Print a file with CHAINS call chains, each of which ends in a blocking call. */
void generate_c(int chains, int plus_plus);
void generate_swift(int chains);

#endif
