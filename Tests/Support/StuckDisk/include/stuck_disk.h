/* A disk that never answers: fsync(2) and write(2) in front of the C library's. */
#ifndef STUCK_DISK_H
#define STUCK_DISK_H

/* From now on fsync does not return. */
void stuck_disk_begin(void);

/* Makes every write(2) to standard error wait for ever. */
void stuck_disk_begin_with_errors(void);

/* The calling thread's id. */
int stuck_disk_own_thread(void);

#endif
