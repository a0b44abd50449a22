/* Shared parts of the generators of call chains. */
#ifndef GENERATE_H
#define GENERATE_H

/* Returns a random number from 0 to BOUND - 1. */
int below(int bound);

/* Returns one of the COUNT texts in CHOICES at random. */
const char *one_of(const char *const *choices, int count);

/* Returns true with a probability of PERCENT percent. */
int happens(int percent);

enum { PARAMETERS_MAX = 9, OUTERMOST_PARAMETERS = 8 };

/* A function's position in its chain, and its callee. */
struct level {
  int chain, level;
  int parameters;        /* the number of its parameters, p0 and so on */
  char callee[64];       /* the name of its callee */
  int callee_parameters; /* the number of the callee's parameters */
};

/* A kind of call: the code before the calling function, and the body of the function. "%1$d" and "%2$d" stand for the
 * numbers of the chain and the level, "CALL" for the call, "SELF" for a recursive call of the function. "CALL" can be
 * outside the scope of the parameters. */
struct shape_text {
  const char *before, *body;
};

/* Prints a call of CALLEE: LEVEL's callee, or a pointer to that function. */
void print_call(const struct level *level, const char *callee);

/* Prints TEXT, a member of a shape_text, with LEVEL's values for the placeholders. */
void print_filled(const struct level *level, const char *text);

/* Returns the suffix of a random function through_… (sites.h), or "" for none. */
const char *a_bare_way(void);

/* Print a file with CHAINS call chains, each of which ends in a blocking call. */
void generate_c(int chains, int plus_plus);
void generate_swift(int chains);

#endif
