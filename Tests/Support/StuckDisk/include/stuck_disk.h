/* A disk that never answers: replaces fsync(2) and write(2) of the C library. */
#ifndef STUCK_DISK_H
#define STUCK_DISK_H

/* Makes every later fsync block forever. */
void stuck_disk_begin(void);

/* Makes every later write(2) to standard error block forever. */
void stuck_disk_begin_with_errors(void);

/* Returns the calling thread's id. */
int stuck_disk_own_thread(void);

#endif
