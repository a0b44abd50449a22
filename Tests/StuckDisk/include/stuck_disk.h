/* A disk that never answers: fsync(2) in front of the C library's. */
#ifndef STUCK_DISK_H
#define STUCK_DISK_H

/* From now on fsync does not return. */
void stuck_disk_begin(void);

/* The calling thread's id. */
int stuck_disk_own_thread(void);

#endif
